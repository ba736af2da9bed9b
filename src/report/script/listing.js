
  // The heat map.

  const heat = (value, most, kind = 'heat') => (value > 0 && most > 0 ? `background: rgba(var(--${kind}), ${(.08 + .5 * Math.sqrt(Math.min(1, value / most))).toFixed(3)})` : undefined);
  const GAP = 6;
  /** What warps wait for before a line, in the order of stall reasons; `ready` is drawn as a busy unit is. */
  const WAITS = ['ready', 'dependency', 'fetch', 'memory', 'drain', 'barrier', 'collective', 'sleep'];
  const waitColour = (reason) => SLOT_COLOUR[reason === 'ready' ? 'unit_busy' : reason];

  /** A bar of what a line waited for. */
  function waitBar({ waits, loads }, most) {
    const all = sum(waits);
    if (all === 0 || most === 0) return el('td', {});
    const told = WAITS.filter((reason) => waits[reason] > 0).map((reason) => `${reason} ${percent(waits[reason], all)}`).join(', ');
    const of = loads.size > 0 ? `; loads at PTX line ${[...loads].sort((a, b) => a - b).join(', ')}` : '';
    return el('td', { class: 'waits' }, el('div', { role: 'img', 'aria-label': `waits: ${told}${of}`, title: told + of, style: `width: ${(100 * all / most).toFixed(1)}%` },
      WAITS.filter((reason) => waits[reason] > 0).map((reason) => el('b', { style: `flex-grow: ${waits[reason]}; background: ${waitColour(reason)}` }))));
  }

  /** Lines of a text with counts, those without folded where they are many in a row; each of `sets` has the counts of a run. */
  function listing(name, lines, sets) {
    const several = sets.length > 1;
    const tops = sets.map(({ counts }) => {
      const most = (key) => Math.max(0, ...[...counts.values()].map((c) => c[key]));
      const total = (key) => [...counts.values()].reduce((all, c) => all + c[key], 0);
      return { issues: most('issues'), waited: most('waited'), injected: most('injected'), all: [total('issues'), total('waited')] };
    });
    const injected = tops.some((top) => top.injected > 0);
    // Of several runs there are columns for what is compared.
    const heads = sets.flatMap(({ run, warpSize }) => (several
      ? ['issues', `lanes of ${warpSize}`, 'cycles waited'].map((head) => `${run}: ${head}`).concat(['waited for'])
      : ['issues', 'share', `lanes of ${warpSize}`, 'cycles waited', 'share', 'waited for', ...(injected ? ['injected'] : [])]));
    const rows = [];
    let cold = [];
    const flush = () => {
      const list = cold;
      cold = [];
      const row = ([number, text]) => el('tr', { class: 'cold' }, el('td', {}, String(number)), el('td', { colspan: heads.length }), el('td', { class: 'code' }, text));
      if (list.length <= GAP) return list.map(row);
      return [row(list[0]), row(['⋮', `${list.length - 2} lines without counts`]), row(list[list.length - 1])];
    };
    const cells = ({ counts, warpSize }, number, top) => {
      const c = counts.get(number);
      if (!c) return [el('td', {}), el('td', {}), el('td', {}), el('td', {})];
      const lanes = c.issues > 0 ? c.active_lanes / c.issues : 0;
      const share = (part, whole) => (several ? [] : [el('td', {}, percent(part, whole))]);
      return [cell(c.issues, { style: heat(c.issues, top.issues, 'cool') }), ...share(c.issues, top.all[0]),
        el('td', { 'data-value': c.active_lanes, style: c.issues > 0 ? heat(warpSize - lanes, warpSize) : undefined }, c.issues > 0 ? lanes.toFixed(1) : '–'),
        cell(c.waited, { style: heat(c.waited, top.waited) }), ...share(c.waited, top.all[1]), waitBar(c, top.waited), ...(injected && !several ? [cell(c.injected)] : [])];
    };
    for (const [number, text] of lines) {
      if (sets.every(({ counts }) => !counts.has(number))) { cold.push([number, text]); continue; }
      rows.push(...flush());
      rows.push(el('tr', { id: `${sets[0].id}-${number}` }, el('td', {}, String(number), sets.slice(1).map(({ id }) => el('i', { id: `${id}-${number}` }))),
        ...sets.flatMap((set, i) => cells(set, number, tops[i])), el('td', { class: 'code' }, text)));
    }
    rows.push(...flush());
    return scroll(name, el('table', { class: 'listing' }, el('caption', {}, name),
      el('thead', {}, el('tr', {}, ['line', ...heads, 'text'].map((h) => el('th', { scope: 'col', class: h === 'text' ? 'text' : undefined }, h)))),
      el('tbody', {}, rows)));
  }

  function add(counts, key, line) {
    const c = counts.get(key) || { issues: 0, active_lanes: 0, injected: 0, waited: 0, waits: {}, loads: new Set() };
    for (const name of ['issues', 'active_lanes', 'injected', 'waited']) c[name] += line[name];
    for (const [reason, cycles] of Object.entries(line.waits || {})) c.waits[reason] = (c.waits[reason] || 0) + cycles;
    for (const load of line.waits_for || []) c.loads.add(load);
    counts.set(key, c);
  }
  /** Lines from the first to the last that has counts. */
  function between(text, counts) {
    const all = [...counts.keys()].filter((n) => n > 0);
    const from = Math.min(...all), to = Math.max(...all);
    return text.split('\n').slice(from - 1, to).map((line, i) => [from + i, line.replace(/\t/g, '  ')]);
  }

  /** The same in numbers. */
  function waitTable(name, counts) {
    const list = [...counts].filter(([, c]) => sum(c.waits) > 0).sort(([, a], [, b]) => sum(b.waits) - sum(a.waits));
    if (list.length === 0) return '';
    const used = WAITS.filter((reason) => list.some(([, c]) => c.waits[reason] > 0));
    return el('details', {}, el('summary', {}, `Waits by reason, ${name}`),
      table(`Waits by reason, ${name}`, ['line', ...used, 'all'], list.map(([number, c]) => [String(number), ...used.map((reason) => c.waits[reason] || 0), c.waited])));
  }

  /** The programs of runs of one text: each of `list` is a run with its number. */
  function programs(list) {
    const [{ run: { report } }] = list;
    const several = DATA.runs.length > 1;
    const of = several && list.length === 1 ? `${list[0].run.name}: ` : '';
    const out = [];
    const lists = list.map(({ run, i }) => ({ run: run.name, lines: run.report.lines, id: `run${i}`, warpSize: run.report.machine ? run.report.machine.warp_size : 32 }));
    const show = (name, lines, sets) => out.push(listing(`${of}${name}`, lines, sets), sets.map(({ run, counts }) => waitTable(`${several ? `${run}: ` : ''}${name}`, counts)));
    const kernels = [...new Set(report.lines.map((line) => line.kernel))];
    for (const kernel of kernels) {
      const sets = lists.map(({ lines, id, ...rest }) => {
        const counts = new Map();
        for (const line of lines) if (line.kernel === kernel) add(counts, line.line, line);
        // By its own order of kernels, as links to it have it.
        return { ...rest, id: `${id}-ptx${[...new Set(lines.map((line) => line.kernel))].indexOf(kernel)}`, counts };
      });
      // What is written comes first, then what the assembler makes for the line.
      const texts = [...new Map(report.lines.filter((line) => line.kernel === kernel).map((line) => [line.line, line.text]).reverse())].reverse();
      const every = new Map(sets.flatMap(({ counts }) => [...counts]));
      const lines = report.listing ? between(report.listing.ptx.text, every) : texts.filter(([n]) => n > 0);
      show(`PTX of ${kernel}${report.listing ? `, ${report.listing.ptx.file}` : ''}`, [...texts.filter(([n]) => n === 0), ...lines], sets);
    }
    for (const [f, source] of (report.listing ? report.listing.sources : []).entries()) {
      const sets = lists.map(({ lines, id, ...rest }) => {
        const counts = new Map();
        for (const line of lines) if (line.source_file === source.index) add(counts, line.source_line, line);
        return { ...rest, id: `${id}-source${f}`, counts };
      });
      const every = new Map(sets.flatMap(({ counts }) => [...counts]));
      if (every.size > 0) show(`CUDA source by .loc, ${source.file}`, between(source.text, every), sets);
    }
    return out;
  }

  function program(runs) {
    const profiled = runs.map((run, i) => ({ run, i })).filter(({ run }) => run.report.lines && run.report.lines.length > 0);
    if (profiled.length === 0) return [el('p', {}, 'Counts by line are there where a run has ', el('code', {}, '--profile'), '.')];
    const reasons = WAITS.filter((reason) => profiled.some(({ run }) => run.report.lines.some((line) => line.waits && line.waits[reason] > 0)));
    // Runs of one program stand side by side.
    const groups = new Map();
    for (const one of profiled) {
      const { report } = one.run;
      const kernels = [...new Set(report.lines.map((line) => line.kernel))].sort().join();
      const key = report.listing ? `${report.listing.ptx.text}\n${kernels}` : one.i;
      groups.set(key, [...(groups.get(key) || []), one]);
    }
    return [
      el('p', {}, 'Blue: issue slots. Orange: inactive lanes, and core cycles for which a warp had issued nothing before the line. Control flow that the policy adds counts as injected, at the line that follows. A bar shows what warps waited for before a line: the result of an earlier operation, memory …; ready, where another warp issued or the unit was taken.'),
      reasons.length > 0 && legend(reasons, reasons.map(waitColour)),
      [...groups.values()].map((list) => [list.length > 1 && el('h3', {}, list.map(({ run }) => run.name).join(', ')), programs(list)]),
    ];
  }
