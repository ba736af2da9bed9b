
  // The answer: what bounds each run, where its issue slots went, and what else cost it time.

  const SLOTS = ['issued', 'unit_busy', 'dependency', 'fetch', 'memory', 'drain', 'barrier', 'collective', 'sleep', 'finishing', 'idle'];
  const SLOT_COLOUR = Object.fromEntries(SLOTS.map((name, i) => [name, name === 'idle' ? 'var(--line)' : colour(i)]));

  const slots = (report) => ({ issued: report.issued, ...report.stalls });
  /** Samples have no counters of all blocks. */
  const counted = (run) => Boolean(run.report.memory && run.report.memory.l1 && 'hits' in run.report.memory.l1);
  const NO_SLOTS = 'No cycles were simulated, or only those of a part of the blocks.';
  const sum = (object) => Object.values(object).reduce((a, b) => a + b, 0);
  const usedSlots = (list) => SLOTS.filter((slot) => list.some((parts) => parts[slot] > 0));
  /** Microseconds of so many core cycles. */
  const micros = (report, cycles) => (report.machine && report.machine.core_khz > 0 ? cycles * 1000 / report.machine.core_khz : undefined);

  /** Bars of issue slots one under the other, or in columns: each of [name, parts]. */
  function slotBars(width, list, high, columns) {
    const count = Math.max(1, Math.min(columns, Math.floor(width / 300)));
    const deep = Math.ceil(list.length / count);
    const room = width / count;
    const name = Math.min(150, room * .35, Math.max(...list.map(([text]) => widthIn(text))) + 10);
    const nodes = list.map(([text, parts], i) => {
      const left = Math.floor(i / deep) * room, y = (i % deep) * (high + 4) + 2;
      const all = sum(parts), span = room - name - 12;
      let at = left + name;
      const segments = SLOTS.filter((slot) => parts[slot] > 0).map((slot) => {
        const wide = span * parts[slot] / all;
        at += wide;
        return svg('rect', { x: at - wide, y, width: Math.max(.2, wide), height: high, fill: SLOT_COLOUR[slot], 'data-slot': slot, 'data-value': parts[slot] },
          svg('title', {}, `${text}: ${slot} ${percent(parts[slot], all)}, ${show(parts[slot])} slots`));
      });
      return svg('g', { 'data-bar': text }, words(text, name - 6, { x: left, y: y + high / 2 + 4 }), segments);
    });
    return canvas(width, deep * (high + 4) + 2, `Issue slots of ${list.length === 1 ? list[0][0] : `${list.length} rows`}: ${list.slice(0, 4).map(([text, parts]) => `${text}: ${SLOTS.filter((s) => parts[s] > 0).map((s) => `${s} ${percent(parts[s], sum(parts))}`).join(', ')}`).join('; ')}`, nodes);
  }
  const slotRows = (list) => [['', ...SLOTS], ...list.map(([name, parts]) => [name, ...SLOTS.map((slot) => parts[slot] || 0)])];

  function slotBar(runs) {
    const list = runs.filter((run) => sum(slots(run.report)) > 0).map((run) => [run.name, slots(run.report)]);
    if (list.length === 0) return el('p', {}, NO_SLOTS);
    const used = usedSlots(list.map(([, parts]) => parts));
    const shares = (slot) => (list.length === 1 ? ` ${percent(list[0][1][slot], sum(list[0][1]))}` : '');
    return [
      figure('Issue slots', `All issue slots: core cycles × SMs × schedulers. In each a scheduler issued an instruction, or had a reason not to.`,
        (width) => slotBars(width, list, 26, 1), () => slotRows(list)),
      legend(used.map((slot) => `${slot}${shares(slot)}`), used.map((slot) => SLOT_COLOUR[slot])),
    ];
  }

  /** Where a line of the PTX stands on this page. */
  function anchor(run, i, kernel, line, words) {
    const kernels = [...new Set(run.report.lines.map((own) => own.kernel))];
    return el('a', { href: `#run${i}-ptx${kernels.indexOf(kernel)}-${line}` }, words);
  }
  const inSource = (line) => (line.source ? `, ${line.source[0]}:${line.source[1]}` : '');
  function place(run, i, line) {
    return [anchor(run, i, line.kernel, line.line, `${line.kernel}, PTX line ${line.line}`), inSource(line), ': ', el('code', {}, line.text),
      line.note && `; ${line.note}`,
      (line.waits_for || []).map((load, n) => [n === 0 ? '; it waits for ' : ', ', anchor(run, i, line.kernel, load.line, `line ${load.line}`), inSource(load), ' ', el('code', {}, load.text)])];
  }

  function findings(run, i) {
    const { findings: list, words: answer, bound } = run.answer;
    const profiled = run.report.lines && run.report.lines.length > 0;
    return [
      el('p', { class: 'verdict' }, bound ? ['Bound by ', el('strong', {}, answer)] : answer, bound ? '.' : ''),
      list.length > 0 && el('ol', { class: 'findings' }, list.map((finding) => el('li', { 'data-kind': finding.kind, 'data-share': finding.share },
        el('strong', {}, `${finding.title}: ${finding.share.toFixed(1)}${THIN}% of the issue slots. `), finding.text,
        finding.lines.length > 0 && el('ul', {}, finding.lines.map((line) =>
          el('li', {}, `${line.part.toFixed(0)}${THIN}% at `, place(run, i, line))))))),
      list.length > 0 && !profiled && el('p', { class: 'dim' }, 'A run with ', el('code', {}, '--profile'), ' names the lines at fault.'),
      run.model && el('p', { class: 'dim model' }, `${run.model[0].toUpperCase()}${run.model.slice(1)}.`),
    ];
  }

  /** What is told of each run at first: name, words, value. */
  const FIRST = [['cycles', 'core cycles'], ['ipc', 'warp instructions per core cycle'], ['issued', '% of issue slots used'], ['lane_utilisation', '% of lanes active'],
    ['occupancy', '% of the warps an SM can hold'], ['memory.l1.hit_rate', '% hits in L1'], ['memory.l2.hit_rate', '% hits in L2'],
    ['peak.issue', '% of peak issue'], ['peak.l1', '% of peak L1 bandwidth'], ['peak.l2', '% of peak L2 bandwidth'], ['peak.dram', '% of peak DRAM bandwidth']];
  const firstFigures = (runs) => [['time', 'µs', (run) => (run.report.cycles > 0 ? micros(run.report, run.report.cycles) : undefined)],
    ...FIRST.map(([name, unit]) => [name, unit, (run) => run.figures[name]])].filter(([, , of]) => runs.some((run) => of(run) !== undefined));

  const good = (report) => report.result === 'pass' || report.result === 'unchecked';
  function tiles(run) {
    return el('div', { class: 'tiles' }, firstFigures([run]).map(([name, unit, of]) =>
      el('div', { class: 'tile', 'data-tile': name }, el('strong', { 'data-value': of(run) }, show(of(run))), el('span', { class: 'dim' }, unit))),
    el('div', { class: 'tile' }, el('strong', { class: good(run.report) ? undefined : 'bad' }, run.report.result), el('span', { class: 'dim' }, 'result')));
  }

  function stopped(report) {
    const out = [];
    if (report.difference) out.push(el('p', { class: 'bad' }, report.difference));
    if (report.stopped) out.push(el('p', { class: 'bad' }, 'The run was stopped: '), el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'What stopped the run' }, el('pre', {}, JSON.stringify(report.stopped, null, 2))));
    return out;
  }

  /** What ran, by what tells runs apart. */
  function about(report) {
    const list = (object) => Object.entries(object || {}).map(([k, v]) => `${k}=${show(v)}`).join(', ');
    return [['workload', `${report.workload} (${report.variant})`], ['chip', report.chip], ['policy', report.policy], ['scheduler', report.scheduler],
      ['parameters', list(report.params)], ['chip values', list(report.set)], ['checks', report.check]].filter(([, value]) => value);
  }

  /** How a figure differs from another, in percent. */
  const change = (now, before) => (now === undefined || before === undefined || before === 0 ? undefined : 100 * (now / before - 1));
  const signed = (value, unit) => el('td', { 'data-value': value }, value === undefined ? '–' : `${value > 0 ? '+' : ''}${unit ? `${value.toFixed(1)}${THIN}%` : show(value)}`);

  function sideBySide(runs) {
    const two = runs.length === 2;
    const text = (value, bad) => el('td', { class: bad ? 'text wrap bad' : 'text wrap' }, breakable(String(value ?? '–')));
    const facts = [...new Set(runs.flatMap((run) => about(run.report).map(([name]) => name)))];
    const fact = (run, name) => (about(run.report).find(([own]) => own === name) || [])[1];
    return table('Runs side by side', ['', ...runs.map((run) => run.name), ...(two ? ['change'] : [])], [
      ['bound by', ...runs.map((run) => text(run.answer.words.split(' — ')[0]))],
      ...firstFigures(runs).map(([name, unit, of]) => [name === 'time' ? 'time, µs' : `${unit}`, ...runs.map((run) => cell(of(run))), ...(two ? [signed(change(of(runs[1]), of(runs[0])), '%')] : [])]),
      ['result', ...runs.map((run) => text(run.report.result, !good(run.report)))],
      ...facts.map((name) => [name, ...runs.map((run) => text(fact(run, name)))]),
    ].map((row) => (two && row.length < 4 ? [...row, el('td', {})] : row)), { class: 'facts' });
  }

  function summary(runs) {
    const one = runs.length === 1 && runs[0];
    return [
      one ? [el('p', { class: 'dim' }, about(one.report).map(([name, value]) => `${name} ${value}`).join('; ')), stopped(one.report)] : '',
      one ? findings(one, 0)[0] : '',
      slotBar(runs),
      one ? [tiles(one), findings(one, 0).slice(1)]
        : [sideBySide(runs), sides(runs, (run, i) => [stopped(run.report), findings(run, i)])],
    ];
  }

  /** All metrics; of several runs with their differences from one of them. */
  function figures(runs) {
    const used = DATA.metrics.filter((metric) => runs.some((run) => run.figures[metric.name] !== undefined));
    const place = el('div', {});
    const list = () => [...(used.some((metric) => metric.unit === 'µs') ? [] : [{ name: 'time', unit: 'µs', doc: 'core cycles at the chip’s core clock', of: (run) => micros(run.report, run.report.cycles) }]), ...used]
      .map((metric) => ({ ...metric, values: runs.map((run) => (metric.of ? metric.of(run) : run.figures[metric.name])) }));
    const draw = (name) => {
      const base = runs.findIndex((run) => run.name === name);
      const heads = ['metric'];
      for (const [i, run] of runs.entries()) heads.push(run.name, ...(i !== base && base >= 0 ? [...(runs.length === 2 ? [`${run.name} − ${name}`] : []), 'change'] : []));
      place.replaceChildren(table('All figures', [...heads, 'unit', 'meaning'], list().map((metric) => {
        const row = [metric.name];
        for (const [i, value] of metric.values.entries()) {
          row.push(cell(value));
          if (i === base || base < 0) continue;
          const before = metric.values[base];
          if (runs.length === 2) row.push(signed(value === undefined || before === undefined ? undefined : value - before));
          row.push(signed(change(value, before), '%'));
        }
        return [...row, metric.unit, el('td', { class: 'text wrap' }, metric.doc)];
      }), { class: runs.length > 1 ? 'matrix' : undefined }));
    };
    draw(runs.length > 1 ? runs[0].name : undefined);
    return [runs.length > 1 && el('div', { class: 'controls' }, choice('differences from', [...runs.map((run) => run.name), 'none'], runs[0].name, draw)),
      el('details', {}, el('summary', {}, `All ${used.length} metrics${runs.length > 1 ? ' and how they differ' : ''}`), place)];
  }
