'use strict';
(() => {
  const DATA = JSON.parse(document.getElementById('data').textContent);
  const SVG = 'http://www.w3.org/2000/svg';
  const main = document.getElementById('main');
  const contents = document.getElementById('contents');

  // Elements.

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === undefined || value === null || value === false) continue;
      if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? '' : String(value));
    }
    for (const child of children.flat(Infinity)) {
      if (child !== undefined && child !== null && child !== '' && child !== false) node.append(child);
    }
    return node;
  }
  const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  const THIN = '\u202f';
  /** A number for people: whole ones to the last digit, others to four. */
  function show(value) {
    if (typeof value !== 'number') return value === undefined || value === null ? '–' : String(value);
    const text = Number.isInteger(value) ? String(value) : Math.abs(value) >= 1000 ? value.toFixed(0) : String(+value.toPrecision(4));
    const [whole, rest] = text.split('.');
    const grouped = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, THIN) : whole;
    return rest === undefined ? grouped : `${grouped}.${rest}`;
  }
  const percent = (part, whole) => (whole > 0 ? `${(100 * part / whole).toFixed(1)}${THIN}%` : '–');

  /** A long name may break where its words end. */
  const breakable = (text) => text.split(/(?<=[_.:,=])/).map((part, i) => (i === 0 ? part : [el('wbr'), part]));

  /** A cell with a number; the number itself, unrounded, stands in data-value. */
  const cell = (value, attributes = {}) =>
    el('td', { 'data-value': typeof value === 'number' ? value : undefined, ...attributes }, show(value));

  const scroll = (name, ...children) => el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': name }, ...children);

  /** A table: headings, and rows of cells or of what becomes one. */
  function table(name, headings, rows, attributes = {}) {
    const isText = (i) => rows.length > 0 && rows.every((row) => !(row[i] instanceof Node) ? typeof row[i] !== 'number' : row[i].classList.contains('text'));
    const head = el('tr', {}, headings.map((heading, i) =>
      el('th', { scope: 'col', class: isText(i) ? 'text' : undefined }, breakable(heading))));
    const body = rows.map((row) => el('tr', {}, row.map((value, i) =>
      value instanceof Node ? value
        : i === 0 ? el('th', { scope: 'row' }, breakable(show(value)))
          : typeof value === 'number' ? cell(value) : el('td', { class: 'text' }, show(value)))));
    return scroll(name, el('table', attributes, el('caption', {}, name), el('thead', {}, head), el('tbody', {}, body)));
  }

  /** A section with its line in the contents. */
  function section(id, title, level, ...children) {
    const node = el('section', { id, 'aria-labelledby': `${id}-title` }, el(`h${level}`, { id: `${id}-title` }, title), ...children);
    contents.append(el('li', { class: level > 2 ? 'sub' : undefined }, el('a', { href: `#${id}` }, title)));
    main.append(node);
    return node;
  }

  /** A choice; calls back with the chosen value, and keeps it readable on paper. */
  function choice(name, options, chosen, then) {
    const label = el('label', { 'data-chosen': chosen }, name);
    const list = el('select', {
      onchange: () => { label.setAttribute('data-chosen', list.value); then(list.value); },
    }, options.map((option) => el('option', { value: option, selected: option === chosen }, option)));
    label.append(list);
    return label;
  }

  const legend = (names, colours) => el('ul', { class: 'legend' }, names.map((name, i) =>
    el('li', {}, el('i', { style: `background: ${colours[i]}` }), name)));

  const COLOURS = Array.from({ length: 10 }, (_, i) => `var(--c${i})`);
  const colour = (i) => COLOURS[i % COLOURS.length];
  /** Dashes tell lines apart where there are more than colours, or none. */
  const DASHES = ['', '6 3', '2 3', '8 3 2 3'];
  const dash = (i) => DASHES[Math.floor(i / COLOURS.length) % DASHES.length] || (i % 2 ? DASHES[1] : '');

  const widthOf = (place) => Math.max(280, Math.min(960, place.clientWidth || 700));

  /** Calls when an element's width may have changed, but not while the page is laid out. */
  function watch(node, then) {
    new ResizeObserver(() => requestAnimationFrame(then)).observe(node);
  }

  /** A plot that is drawn anew when its place changes its width. */
  function figure(words, draw) {
    const place = el('div', {});
    let width = 0;
    const again = () => {
      const now = widthOf(place);
      if (now === width) return;
      width = now;
      place.replaceChildren(draw(width));
    };
    // Paper is drawn before anything was laid out.
    again();
    watch(place, again);
    return el('figure', {}, place, el('figcaption', {}, words));
  }

  // Scales.

  const nice = (from, to, count) => {
    const rough = (to - from) / Math.max(1, count) || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) || rough;
    const out = [];
    for (let v = Math.ceil(from / step) * step; v <= to + step * 1e-9; v += step) out.push(+v.toPrecision(12));
    return out;
  };
  function linear([from, to], [a, b]) {
    if (from === to) { from -= Math.abs(from) / 2 || 1; to += Math.abs(to) / 2 || 1; }
    const scale = (v) => a + (v - from) / (to - from) * (b - a);
    scale.ticks = nice(from, to, Math.abs(b - a) / 70);
    return scale;
  }
  function logarithmic([from, to], [a, b]) {
    let low = Math.floor(Math.log10(from) + 1e-9);
    const high = Math.max(low + 1, Math.ceil(Math.log10(to) - 1e-9));
    low = Math.min(low, high - 1);
    const scale = (v) => a + (Math.log10(v) - low) / (high - low) * (b - a);
    const every = Math.max(1, Math.ceil((high - low) * 40 / Math.abs(b - a)));
    scale.ticks = [];
    for (let e = low; e <= high; e += every) scale.ticks.push(10 ** e);
    scale.range = [10 ** low, 10 ** high];
    return scale;
  }
  /** A number beside an axis: thousands and millions by their letters. */
  function tick(value) {
    const [letter, one] = [['G', 1e9], ['M', 1e6], ['k', 1e3]].find(([, one]) => Math.abs(value) >= 10 * one || (one > 1e3 && Math.abs(value) >= one)) || ['', 1];
    return letter ? `${+(value / one).toPrecision(4)}${THIN}${letter}` : show(value);
  }
  /** Axes around a plot; x may be a list of words. */
  function axes(width, height, x, y, names, words) {
    const left = 62, bottom = height - 42;
    const out = [];
    for (const v of y.ticks) {
      out.push(svg('line', { class: 'grid', x1: left, x2: width - 8, y1: y(v), y2: y(v) }),
        svg('text', { class: 'dim', x: left - 6, y: y(v) + 4, 'text-anchor': 'end' }, tick(v)));
    }
    const labels = words || x.ticks.map((v) => [x(v), tick(v)]);
    const room = (width - left - 8) / Math.max(1, labels.length);
    const longest = Math.max(...labels.map(([, text]) => text.length)) * 7;
    // Words that do not fit beside each other lean.
    const lean = words && longest > room;
    for (const [at, text] of labels) {
      if (!words) out.push(svg('line', { class: 'grid', x1: at, x2: at, y1: 8, y2: bottom }));
      out.push(lean
        ? svg('text', { class: 'dim', transform: `translate(${at}, ${bottom + 12}) rotate(-32)`, 'text-anchor': 'end' }, text)
        : svg('text', { class: 'dim', x: at, y: bottom + 16, 'text-anchor': 'middle' }, text));
    }
    out.push(svg('text', { class: 'dim', x: (left + width) / 2, y: height - 4 + (lean ? Math.min(40, longest / 2.5) : 0), 'text-anchor': 'middle' }, names[0]),
      svg('text', { class: 'dim', x: 4, y: 0, transform: `rotate(-90) translate(${-(bottom + 8) / 2}, 10)`, 'text-anchor': 'middle' }, names[1]));
    return { nodes: out, extra: lean ? Math.min(46, longest / 2.2) : 0 };
  }
  const canvas = (width, height, label, ...children) =>
    svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label }, ...children);

  const METRIC = new Map(DATA.metrics.map((metric) => [metric.name, metric]));
  const named = (name) => { const m = METRIC.get(name); return m ? `${name} (${m.unit})` : name; };

  // One run.

  const SLOTS = ['issued', 'unit_busy', 'dependency', 'memory', 'drain', 'barrier', 'collective', 'sleep', 'finishing', 'idle'];
  const SLOT_COLOUR = Object.fromEntries(SLOTS.map((name, i) => [name, name === 'idle' ? 'var(--line)' : colour(i)]));

  const slots = (report) => ({ issued: report.issued, ...report.stalls });
  const sum = (object) => Object.values(object).reduce((a, b) => a + b, 0);

  function bar(name, parts, whole, big) {
    const words = SLOTS.filter((slot) => parts[slot] > 0).map((slot) => `${slot} ${percent(parts[slot], whole)}`);
    return el('div', { class: big ? 'bar whole' : 'bar' }, el('span', {}, name),
      el('div', { role: 'img', 'aria-label': `${name}: ${words.join(', ')}`, title: words.join(', ') },
        SLOTS.filter((slot) => parts[slot] > 0).map((slot) =>
          el('b', { style: `width: ${100 * parts[slot] / whole}%; background: ${SLOT_COLOUR[slot]}` }))));
  }

  function stalls(report) {
    const whole = slots(report);
    const all = sum(whole);
    if (all === 0) return [el('p', {}, 'The run had no simulated time.')];
    const used = SLOTS.filter((slot) => whole[slot] > 0);
    const sms = report.by_sm || [];
    const rows = [['chip', ...used.map((slot) => whole[slot])],
      ...sms.map((sm, i) => [`SM ${i}`, ...used.map((slot) => (slot === 'issued' ? sm.issued : sm.stalls[slot] || 0))])];
    return [
      el('p', {}, 'What each scheduler did in each core cycle: it issued an instruction, or had a reason not to.'),
      legend(used.map((slot) => `${slot} ${percent(whole[slot], all)}`), used.map((slot) => SLOT_COLOUR[slot])),
      el('div', { class: 'bars one' }, bar('chip', whole, all, true)),
      el('div', { class: 'bars' }, sms.map((sm, i) => {
        const parts = { issued: sm.issued, ...sm.stalls };
        return bar(`SM ${i}`, parts, sum(parts), false);
      })),
      el('details', {}, el('summary', {}, 'Issue slots in numbers'), table('Issue slots, schedulers × core cycles', ['', ...used], rows)),
    ];
  }

  function roofline(runs) {
    const points = [];
    for (const run of runs) {
      const { report } = run;
      const m = report.machine;
      if (!m || !report.cycles || !report.warp_instructions) continue;
      const seconds = report.cycles / (m.core_khz * 1e3);
      const rate = report.warp_instructions / seconds / 1e9;
      const levels = [['L1', report.memory.transactions * m.line_bytes, m.l1_bytes_per_second],
        ['L2', report.memory.bytes_moved, m.l2_bytes_per_second], ['DRAM', report.memory.dram.bytes, m.dram_bytes_per_second]];
      for (const [level, bytes, peak] of levels) {
        // A chip without the cache has no ceiling there.
        if (bytes > 0 && peak > 0) points.push({ run, level, bytes, peak, rate, intensity: report.warp_instructions / bytes });
      }
    }
    if (points.length === 0) return [el('p', {}, 'No run has both time and traffic.')];
    const levels = ['L1', 'L2', 'DRAM'];
    const chips = new Map();
    for (const run of runs) if (run.report.machine) chips.set(run.report.chip, run.report.machine);
    const rows = points.map((p) => [p.run.name, p.level, p.bytes, p.intensity, p.rate,
      Math.min(p.run.report.machine.warp_instructions_per_second / 1e9, p.intensity * p.peak / 1e9)].map((v, i) =>
      (i === 1 ? el('td', { class: 'text' }, v) : v)));
    const draw = (width) => {
      const height = Math.min(420, width * .7 + 60);
      const ceilings = [...chips.values()];
      const top = Math.max(...ceilings.map((m) => m.warp_instructions_per_second / 1e9));
      const xs = points.map((p) => p.intensity).concat(ceilings.flatMap((m) =>
        [m.warp_instructions_per_second / m.dram_bytes_per_second]));
      const x = logarithmic([Math.min(...xs) / 2, Math.max(...xs) * 2], [62, width - 8]);
      const y = logarithmic([Math.min(...points.map((p) => p.rate)) / 2, top * 1.2], [height - 42, 8]);
      const frame = axes(width, height, x, y, ['warp instructions a byte', '10⁹ warp instructions a second']);
      const clip = `clip${Math.random().toString(36).slice(2)}`;
      const lines = ceilings.flatMap((m, c) => {
        const peak = m.warp_instructions_per_second / 1e9;
        const flat = svg('line', { x1: 62, x2: width - 8, y1: y(peak), y2: y(peak), stroke: 'var(--ink)', 'stroke-dasharray': dash(c * 10) });
        const slopes = [['L1', m.l1_bytes_per_second], ['L2', m.l2_bytes_per_second], ['DRAM', m.dram_bytes_per_second]];
        return [flat, ...slopes.filter(([, b]) => b > 0).map(([level, bytes]) => {
          const knee = peak / (bytes / 1e9);
          return svg('line', {
            x1: x(x.range[0]), y1: y(x.range[0] * bytes / 1e9), x2: x(knee), y2: y(peak),
            stroke: colour(levels.indexOf(level)), 'stroke-width': 1.5, 'clip-path': `url(#${clip})`,
          });
        })];
      });
      const marks = points.map((p) => {
        const at = [x(p.intensity), y(p.rate)];
        return svg('circle', { cx: at[0], cy: at[1], r: 5.5, fill: colour(levels.indexOf(p.level)), stroke: 'var(--paper)' },
          svg('title', {}, `${p.run.name}, ${p.level}: ${show(p.rate)}·10⁹ warp instructions a second`));
      });
      const names = runs.length > 1 ? runs.flatMap((run) => {
        const own = points.filter((p) => p.run === run);
        if (own.length === 0) return [];
        const right = own.reduce((a, b) => (a.intensity > b.intensity ? a : b));
        return [svg('text', { x: Math.min(x(right.intensity) + 9, width - 90), y: y(right.rate) + 4 }, run.name)];
      }) : [];
      return canvas(width, height, 'Instruction roofline',
        svg('defs', {}, svg('clipPath', { id: clip }, svg('rect', { x: 62, y: 8, width: width - 70, height: height - 50 }))),
        frame.nodes, lines, marks, names);
    };
    return [
      el('p', {}, 'Warp instructions a second over warp instructions a byte of each level of memory (an instruction roofline, after Ding and Williams, 2019). Flat: what all schedulers can issue. Slopes: what a level can move. A point far below both waits for latency.'),
      legend(levels, levels.map((_, i) => colour(i))),
      figure(`Ceilings of ${[...chips.keys()].join(', ')}.`, draw),
      el('details', {}, el('summary', {}, 'Roofline in numbers'),
        table('Roofline', ['run', 'level', 'bytes', 'warp instructions a byte', '10⁹ warp instructions a second', 'of at most'], rows)),
    ];
  }

  function memory(report) {
    const m = report.memory;
    const cache = (name, c) => [name, c.hits, c.merges, c.misses, el('td', {}, percent(c.hits + c.merges, c.hits + c.merges + c.misses)),
      c.evictions, c.write_backs, c.reservation_fails];
    const d = m.dram;
    const bursts = d.row_hits + d.row_misses + d.row_conflicts;
    const queues = Object.entries({ ...m.queues, dram: d.queue }).map(([name, q]) =>
      [name, el('td', { 'data-value': q.entry_cycles }, report.cycles ? show(q.entry_cycles / report.cycles) : '–'), q.most]);
    return [
      table('Caches, all SMs and slices', ['', 'hits', 'merges', 'misses', 'hit rate', 'evictions', 'write-backs', 'reservation fails'], [cache('L1', m.l1), cache('L2', m.l2)]),
      table('Traffic', ['', 'count'], [['accesses of warps', m.accesses], ['lines of these', m.transactions],
        ['bytes asked for', m.bytes_useful], ['bytes between SMs and L2', m.bytes_moved], ['atomics at L2, by lane', m.atomics],
        ['accesses to shared and constant memory', m.on_chip_accesses], ['cycles lost to bank conflicts', m.conflict_cycles]]),
      table('DRAM, all channels', ['', 'count'], [['reads', d.reads], ['writes', d.writes], ['bytes', d.bytes],
        ['bursts that found their row open', el('td', { 'data-value': d.row_hits }, `${show(d.row_hits)} (${percent(d.row_hits, bursts)})`)],
        ['bursts that found no row open', d.row_misses], ['bursts that found another row open', d.row_conflicts],
        ['turns of the bus between reads and writes', d.turnarounds], ['refreshes', d.refreshes],
        ['command-clock cycles the data buses moved bytes', d.busy_cycles]]),
      el('details', {}, el('summary', {}, 'Queues and bank conflicts'),
        table('Queues: entries on the mean over the run, all together, and at most in one', ['', 'mean', 'most'], queues),
        Object.keys(m.on_chip_turns).length > 0 && table('Accesses to shared and constant memory by turns they took',
          ['turns', 'accesses'], Object.entries(m.on_chip_turns).map(([turns, n]) => [Number(turns), n]))),
    ];
  }

  const QUANTILES = ['min', 'p50', 'p90', 'p99', 'max'];
  function latencies(report) {
    const m = report.memory;
    const list = [...Object.entries(m.load_latency).map(([level, p]) => [`loads, ${level.toUpperCase()}`, p]),
      ['stores', m.store_latency], ['atomics', m.atomic_latency]].filter(([, p]) => p && p.count > 0);
    if (list.length === 0) return [el('p', {}, 'No access to global or local memory.')];
    const draw = (width) => {
      const row = 34, left = 100, height = list.length * row + 50;
      const x = logarithmic([Math.max(1, Math.min(...list.map(([, p]) => p.min))), Math.max(...list.map(([, p]) => p.max))], [left, width - 16]);
      const grid = x.ticks.map((tick) => [svg('line', { class: 'grid', x1: x(tick), x2: x(tick), y1: 4, y2: height - 40 }),
        svg('text', { class: 'dim', x: x(tick), y: height - 24, 'text-anchor': 'middle' }, show(tick))]);
      const rows = list.map(([name, p], i) => {
        const y = i * row + 20;
        const at = (q) => x(Math.max(1, p[q]));
        return [svg('text', { x: left - 8, y: y + 4, 'text-anchor': 'end' }, name),
          svg('line', { x1: at('min'), x2: at('max'), y1: y, y2: y, stroke: 'var(--dim)' }),
          svg('rect', { x: at('p50'), y: y - 7, width: Math.max(1, at('p90') - at('p50')), height: 14, fill: colour(2), opacity: .55 }),
          svg('line', { x1: at('p50'), x2: at('p50'), y1: y - 9, y2: y + 9, stroke: 'var(--ink)', 'stroke-width': 2 }),
          svg('circle', { cx: at('p99'), cy: y, r: 4, fill: colour(1) })];
      });
      return canvas(width, height, 'Latencies of transactions', grid, rows,
        svg('text', { class: 'dim', x: (left + width) / 2, y: height - 6, 'text-anchor': 'middle' }, 'core cycles'));
    };
    return [figure('Line: from the least to the largest. Stroke: median. Box: median to 90 %. Dot: 99 %.', draw),
      table('Latencies of transactions, core cycles', ['', 'transactions', ...QUANTILES], list.map(([name, p]) => [name, p.count, ...QUANTILES.map((q) => p[q])]))];
  }

  const launches = (report) => table('Launches', ['kernel', 'grid', 'block', 'core cycles', 'from', 'to', 'warp instructions', 'registers', 'shared bytes', 'blocks an SM', 'limit'],
    report.kernels.map((k) => [k.name, k.grid.join(' × '), k.block.join(' × '), k.cycles, k.start_cycle, k.end_cycle,
      k.warp_instructions, k.registers_per_thread, k.shared_bytes, k.resident_blocks, k.occupancy_limit]));

  // The heat map.

  const heat = (value, most, kind = 'heat') => (value > 0 && most > 0 ? `background: rgba(var(--${kind}), ${(.08 + .5 * Math.sqrt(Math.min(1, value / most))).toFixed(3)})` : undefined);
  const GAP = 6;

  /** Lines of a text with counts, those without folded where they are many in a row. */
  function listing(name, id, lines, counts, warpSize) {
    const most = (key) => Math.max(0, ...[...counts.values()].map((c) => c[key]));
    const top = { issues: most('issues'), waited: most('waited') };
    const totals = [...counts.values()].reduce((t, c) => [t[0] + c.issues, t[1] + c.waited], [0, 0]);
    const rows = [];
    let cold = [];
    const flush = () => {
      const list = cold;
      cold = [];
      const row = ([number, text]) => el('tr', { class: 'cold' }, el('td', {}, String(number)), el('td', { colspan: 6 }), el('td', { class: 'code' }, text));
      if (list.length <= GAP) return list.map(row);
      return [row(list[0]), el('tr', { class: 'cold' }, el('td', {}, '⋮'), el('td', { colspan: 6 }), el('td', { class: 'code' }, `${list.length - 2} lines without counts`)), row(list[list.length - 1])];
    };
    for (const [number, text] of lines) {
      const c = counts.get(number);
      if (!c) { cold.push([number, text]); continue; }
      rows.push(...flush());
      const lanes = c.issues > 0 ? c.active_lanes / c.issues : 0;
      rows.push(el('tr', { id: `${id}-${number}` }, el('td', {}, String(number)),
        cell(c.issues, { style: heat(c.issues, top.issues, 'cool') }), el('td', {}, percent(c.issues, totals[0])),
        el('td', { 'data-value': c.active_lanes, style: c.issues > 0 ? heat(warpSize - lanes, warpSize) : undefined }, c.issues > 0 ? lanes.toFixed(1) : '–'),
        cell(c.waited, { style: heat(c.waited, top.waited) }), el('td', {}, percent(c.waited, totals[1])), cell(c.injected), el('td', { class: 'code' }, text)));
    }
    rows.push(...flush());
    return scroll(name, el('table', { class: 'listing' }, el('caption', {}, name),
      el('thead', {}, el('tr', {}, ['line', 'issues', 'share', `lanes of ${warpSize}`, 'cycles waited', 'share', 'injected', 'text'].map((h) => el('th', { scope: 'col', class: h === 'text' ? 'text' : undefined }, h)))),
      el('tbody', {}, rows)));
  }

  function add(counts, key, line) {
    const c = counts.get(key) || { issues: 0, active_lanes: 0, injected: 0, waited: 0 };
    for (const name of Object.keys(c)) c[name] += line[name];
    counts.set(key, c);
  }
  /** Lines from the first to the last that has counts. */
  function between(text, counts) {
    const all = [...counts.keys()].filter((n) => n > 0);
    const from = Math.min(...all), to = Math.max(...all);
    return text.split('\n').slice(from - 1, to).map((line, i) => [from + i, line.replace(/\t/g, '  ')]);
  }

  function program(report, id) {
    if (!report.lines || report.lines.length === 0) {
      return [el('p', {}, 'Counts by line are there where a run has ', el('code', {}, '--profile'), '.')];
    }
    const warpSize = report.machine ? report.machine.warp_size : 32;
    const out = [el('p', {}, 'Blue: issue slots. Orange: lanes that were not active, and core cycles for which a warp had issued nothing before the line. Control flow that the policy adds counts as injected, at the line behind it.')];
    const kernels = [...new Set(report.lines.map((line) => line.kernel))];
    for (const [k, kernel] of kernels.entries()) {
      const counts = new Map();
      const texts = [];
      for (const line of report.lines.filter((l) => l.kernel === kernel)) {
        add(counts, line.line, line);
        texts.push([line.line, line.text]);
      }
      const lines = report.listing ? between(report.listing.ptx.text, counts) : texts;
      const runtime = texts.filter(([n]) => n === 0);
      out.push(listing(`PTX of ${kernel}${report.listing ? `, ${report.listing.ptx.file}` : ''}`, `${id}-ptx${k}`, [...runtime, ...lines], counts, warpSize));
    }
    for (const [f, source] of (report.listing ? report.listing.sources : []).entries()) {
      const counts = new Map();
      for (const line of report.lines) if (line.source_file === source.index) add(counts, line.source_line, line);
      if (counts.size > 0) out.push(listing(`CUDA source by .loc, ${source.file}`, `${id}-source${f}`, between(source.text, counts), counts, warpSize));
    }
    return out;
  }

  // Runs.

  function tiles(run) {
    const { report } = run;
    const tile = (name, value, unit) => el('div', { class: 'tile' }, el('strong', { 'data-value': value }, show(value)), el('span', { class: 'dim' }, `${name}${unit ? `, ${unit}` : ''}`));
    const f = run.figures;
    return el('div', { class: 'tiles' }, [['cycles', 'core cycles'], ['ipc', 'warp instructions a cycle'], ['lane_utilisation', '% of lanes'],
      ['issued', '% of issue slots'], ['memory.l1.hit_rate', '%'], ['memory.dram.row_hit_rate', '%']]
      .filter(([name]) => f[name] !== undefined).map(([name, unit]) => tile(name, f[name], unit)),
    el('div', { class: 'tile' }, el('strong', { class: report.result === 'pass' || report.result === 'unchecked' ? undefined : 'bad' }, report.result), el('span', { class: 'dim' }, 'result')));
  }

  function stopped(report) {
    const out = [];
    if (report.difference) out.push(el('p', { class: 'bad' }, report.difference));
    if (report.stopped) out.push(el('p', { class: 'bad' }, 'The run was stopped: '), el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'What stopped the run' }, el('pre', {}, JSON.stringify(report.stopped, null, 2))));
    return out;
  }

  const words = (report) => {
    const set = Object.entries(report.set || {}).map(([k, v]) => `${k}=${v}`);
    const params = Object.entries(report.params || {}).map(([k, v]) => `${k}=${show(v)}`);
    return [`${report.workload} (${report.variant}) on ${report.chip}`, `policy ${report.policy}`, `scheduler ${report.scheduler}`,
      params.length ? `parameters ${params.join(', ')}` : '', set.length ? `chip values ${set.join(', ')}` : '', `checks ${report.check}`].filter(Boolean).join('; ');
  };

  if (DATA.runs.length > 0) {
    const runs = DATA.runs;
    section('summary', 'Summary', 2, runs.map((run) => [runs.length > 1 && el('h3', {}, run.name), el('p', {}, words(run.report)), stopped(run.report), tiles(run)]));
    const used = DATA.metrics.filter((metric) => runs.some((run) => run.figures[metric.name] !== undefined));
    section('figures', 'Figures', 2, table('All figures', ['metric', ...runs.map((run) => run.name), 'unit', 'meaning'], used.map((metric) =>
      [metric.name, ...runs.map((run) => run.figures[metric.name]).map((v) => cell(v)), metric.unit, el('td', { class: 'text wrap' }, metric.doc)])));
    section('roofline', 'Roofline', 2, roofline(runs));
    for (const [i, run] of runs.entries()) {
      const id = `run${i}`;
      if (runs.length > 1) section(id, run.name, 2);
      const level = runs.length > 1 ? 3 : 2;
      section(`${id}-stalls`, 'Issue slots and stalls', level, stalls(run.report));
      section(`${id}-memory`, 'Caches and DRAM', level, memory(run.report));
      section(`${id}-latency`, 'Latency', level, latencies(run.report));
      section(`${id}-launches`, 'Launches', level, launches(run.report));
      section(`${id}-program`, 'Program', level, program(run.report, id));
    }
  }

  // Sweeps.

  const ALL = 'all (geometric mean)';
  const number = (text) => (text !== '' && Number.isFinite(Number(text)) ? Number(text) : undefined);
  const distinct = (values) => {
    const out = [...new Set(values)];
    return out.every((v) => number(v) !== undefined) ? out.sort((a, b) => number(a) - number(b)) : out;
  };
  const mean = (values) => {
    if (values.length === 0) return undefined;
    if (values.length === 1) return values[0];
    if (values.some((v) => v <= 0)) return values.reduce((a, b) => a + b, 0) / values.length;
    return Math.exp(values.reduce((a, b) => a + Math.log(b), 0) / values.length);
  };

  function lines(width, xs, series, names) {
    const numbers = xs.map(number);
    const values = series.flatMap((s) => s.values).filter((v) => v !== undefined);
    const draw = (height) => {
      const y = linear([Math.min(0, ...values), Math.max(...values)], [height - 42, 8]);
      const byNumber = numbers.every((n) => n !== undefined) && xs.length > 1;
      // Factors rather than steps: a logarithmic axis.
      const far = byNumber && Math.min(...numbers) > 0 && Math.max(...numbers) / Math.min(...numbers) > 50;
      const x = byNumber ? (far ? logarithmic : linear)([Math.min(...numbers), Math.max(...numbers)], [74, width - 20]) : undefined;
      const at = (i) => (byNumber ? x(numbers[i]) : 62 + (width - 70) * (i + .5) / xs.length);
      const frame = axes(width, height, x, y, names, byNumber ? undefined : xs.map((word, i) => [at(i), word]));
      const nodes = series.map((s, n) => {
        const points = s.values.map((v, i) => (v === undefined ? undefined : [at(i), y(v), v, xs[i]])).filter(Boolean);
        return [svg('polyline', { points: points.map(([a, b]) => `${a},${b}`).join(' '), fill: 'none', stroke: colour(n), 'stroke-width': 2, 'stroke-dasharray': dash(n) }),
          points.map(([a, b, v, word]) => svg('circle', { cx: a, cy: b, r: 3.5, fill: colour(n), 'data-value': v }, svg('title', {}, `${s.name} ${word}: ${show(v)}`)))];
      });
      return canvas(width, height + frame.extra, `${names[1]} over ${names[0]}`, frame.nodes, nodes);
    };
    return draw(380);
  }

  function bars(width, xs, series, names) {
    const height = 380;
    const values = series.flatMap((s) => s.values).filter((v) => v !== undefined);
    const y = linear([Math.min(0, ...values), Math.max(0, ...values)], [height - 42, 8]);
    const room = (width - 70) / xs.length;
    const each = room * .82 / series.length;
    const frame = axes(width, height, undefined, y, names, xs.map((word, i) => [62 + room * (i + .5), word]));
    const nodes = series.map((s, n) => s.values.map((v, i) => v !== undefined && svg('rect', {
      x: 62 + room * (i + .09) + each * n, y: Math.min(y(v), y(0)), width: Math.max(1, each - 1), height: Math.max(1, Math.abs(y(0) - y(v))),
      fill: colour(n), 'data-value': v,
    }, svg('title', {}, `${s.name} ${xs[i]}: ${show(v)}`))));
    return canvas(width, height + frame.extra, `${names[1]} over ${names[0]}`, frame.nodes, nodes.flat().filter(Boolean));
  }

  function grid(xs, series, names) {
    const values = series.flatMap((s) => s.values).filter((v) => v !== undefined);
    const low = Math.min(...values), high = Math.max(...values);
    return table(`${names[1]}; darker is more`, [`${names[2]} \\ ${names[0]}`, ...xs], series.map((s) =>
      [s.name, ...s.values.map((v) => cell(v, { style: v === undefined ? undefined : heat(v - low, high - low) }))]));
  }

  /** Points that no other beats in both. */
  function front(points, less) {
    const better = (a, b, i) => (less[i] ? a[i] < b[i] : a[i] > b[i]);
    const beats = (a, b) => !better(b, a, 0) && !better(b, a, 1) && (better(a, b, 0) || better(a, b, 1));
    return points.filter((p) => !points.some((q) => beats(q.at, p.at)));
  }
  const MORE = new Set(['ipc', 'lane_utilisation', 'issued', 'memory.l1.hit_rate', 'memory.l2.hit_rate', 'memory.dram.row_hit_rate']);

  function pareto(width, points, names) {
    const less = names.map((name) => !MORE.has(name));
    const best = front(points, less).sort((a, b) => a.at[0] - b.at[0]);
    const height = 380;
    const scale = (i, span) => {
      const values = points.map((p) => p.at[i]);
      const [low, high] = [Math.min(...values), Math.max(...values)];
      return (low > 0 && high / low > 50 ? logarithmic : linear)([low, high], span);
    };
    const x = scale(0, [74, width - 20]), y = scale(1, [height - 42, 16]);
    const title = names.map((name, i) => `${named(name)}, ${less[i] ? 'less' : 'more'} is better`);
    const frame = axes(width, height, x, y, title);
    const picture = canvas(width, height, `Pareto front of ${names.join(' and ')}`, frame.nodes,
      svg('polyline', { points: best.map((p) => `${x(p.at[0])},${y(p.at[1])}`).join(' '), fill: 'none', stroke: colour(1), 'stroke-width': 1.5 }),
      points.map((p) => svg('circle', { cx: x(p.at[0]), cy: y(p.at[1]), r: best.includes(p) ? 5 : 3, fill: best.includes(p) ? colour(1) : colour(8) }, svg('title', {}, p.name))));
    return el('div', {}, picture, table('The Pareto front', ['point', ...names.map(named)], best.map((p) => [p.name, ...p.at])));
  }

  function sweep(data) {
    const good = data.points.filter((p) => Object.keys(p.values).length > 0);
    const metrics = DATA.metrics.map((m) => m.name).filter((name) => good.some((p) => p.values[name] !== undefined));
    const values = data.axes.map((_, i) => distinct(data.points.map((p) => p.axes[i])));
    const many = data.axes.map((_, i) => i).filter((i) => values[i].length > 1);
    const order = [...many].sort((a, b) => values[b].length - values[a].length);
    // A chip is read from left to right before a workload is; a key of a chip before both.
    const first = order.find((i) => values[i].every((v) => number(v) !== undefined)) ?? order.find((i) => data.axes[i] === 'chip') ?? order[0] ?? 0;
    const second = order.find((i) => i !== first) ?? first;
    const state = { kind: values[first].every((v) => number(v) !== undefined) ? 'line' : 'bar', metric: metrics.includes('cycles') ? 'cycles' : metrics[0], x: first, series: second, other: 'memory.dram.bytes', rest: new Map() };
    if (!metrics.includes(state.other)) state.other = metrics[1] || metrics[0];
    for (const i of many) state.rest.set(i, ALL);
    const controls = el('div', { class: 'controls' });
    const place = el('div', {});
    let width = 700;
    const chosen = () => good.filter((p) => many.every((i) => i === state.x || i === state.series || state.rest.get(i) === ALL || p.axes[i] === state.rest.get(i)));
    const draw = () => {
      const points = chosen();
      if (state.kind === 'Pareto') {
        const list = good.filter((p) => many.every((i) => state.rest.get(i) === ALL || p.axes[i] === state.rest.get(i)))
          .filter((p) => p.values[state.metric] !== undefined && p.values[state.other] !== undefined)
          .map((p) => ({ name: many.map((i) => `${data.axes[i]} ${p.axes[i]}`).join(', '), at: [p.values[state.metric], p.values[state.other]] }));
        place.replaceChildren(list.length > 0 ? pareto(width, list, [state.metric, state.other]) : el('p', {}, 'No point has both.'));
        return;
      }
      const xs = values[state.x];
      const names = state.series === state.x ? [''] : values[state.series];
      const series = names.map((name) => ({
        name,
        values: xs.map((x) => mean(points.filter((p) => p.axes[state.x] === x && (state.series === state.x || p.axes[state.series] === name))
          .map((p) => p.values[state.metric]).filter((v) => v !== undefined))),
      })).filter((s) => s.values.some((v) => v !== undefined));
      if (series.length === 0) { place.replaceChildren(el('p', {}, 'No point is left.')); return; }
      const title = [data.axes[state.x], named(state.metric), data.axes[state.series]];
      const averaged = many.filter((i) => i !== state.x && i !== state.series && state.rest.get(i) === ALL).map((i) => data.axes[i]);
      const picture = state.kind === 'line' ? lines(width, xs, series, title) : state.kind === 'bar' ? bars(width, xs, series, title) : grid(xs, series, title);
      place.replaceChildren(el('figure', {}, state.kind !== 'heat map' && names.length > 1 ? legend(series.map((s) => s.name), series.map((_, i) => colour(i))) : '', picture,
        el('figcaption', {}, `${title[1]} over ${title[0]}${names.length > 1 ? ` by ${title[2]}` : ''}${averaged.length ? `; geometric means over ${averaged.join(', ')} (arithmetic where a value is not positive)` : ''}.`)),
      state.kind === 'heat map' ? '' : el('details', {}, el('summary', {}, 'Plotted values'), table(title[1], [`${title[2]} \\ ${title[0]}`, ...xs], series.map((s) => [s.name, ...s.values.map((v) => cell(v))]))));
    };
    const names = many.map((i) => data.axes[i]);
    const rebuild = () => {
      const index = (name) => data.axes.indexOf(name);
      controls.replaceChildren(
        choice('plot', ['line', 'bar', 'heat map', 'Pareto'], state.kind, (v) => { state.kind = v; rebuild(); draw(); focus(0); }),
        choice('metric', metrics, state.metric, (v) => { state.metric = v; draw(); }),
        ...(state.kind === 'Pareto' ? [choice('against', metrics, state.other, (v) => { state.other = v; draw(); })]
          : many.length > 0 ? [choice('from left to right', names, data.axes[state.x], (v) => { state.x = index(v); rebuild(); draw(); focus(2); }),
            choice('lines', names, data.axes[state.series], (v) => { state.series = index(v); rebuild(); draw(); focus(3); })] : []),
        ...many.filter((i) => state.kind === 'Pareto' || (i !== state.x && i !== state.series)).map((i) =>
          choice(data.axes[i], [ALL, ...values[i]], state.rest.get(i), (v) => { state.rest.set(i, v); draw(); })));
    };
    // A control that is made anew keeps the focus.
    const focus = (i) => controls.querySelectorAll('select')[i]?.focus();
    rebuild();
    watch(place, () => {
      const now = widthOf(place);
      if (now !== width) { width = now; draw(); }
    });
    draw();
    const bad = data.points.filter((p) => !['pass', 'unchecked'].includes(p.result));
    return [
      el('p', {}, `${data.points.length} points; axes: ${data.axes.map((axis, i) => `${axis} (${values[i].length})`).join(', ')}. ${bad.length === 0 ? 'All ran, and no result differs.' : `${bad.length} faulted, differ or were refused.`}`),
      controls, place,
      bad.length > 0 && el('details', { open: bad.length < 20 }, el('summary', {}, 'Points without a good result'),
        table('Points without a good result', [...data.axes, 'result', 'message'], bad.map((p) => [...p.axes.map((v, i) => (i === 0 ? v : el('td', { class: 'text' }, v))), p.result, el('td', { class: 'text wrap' }, p.message)]))),
    ];
  }
  for (const [i, data] of DATA.sweeps.entries()) section(`sweep${i}`, `Sweep ${data.name}`, 2, sweep(data));

  // Policy studies.

  const STUDY = [['speedup', 'speed-up over the post-dominator stack'], ['cycles', 'core cycles'], ['simd_efficiency', 'active lanes of those of a warp'],
    ['warp_instructions', 'warp instructions issued'], ['control_instructions', 'injected control instructions'], ['transactions', 'lines asked of L1 or L2'],
    ['entries', 'most entries of the policy for one warp']];
  function study(data) {
    const workloads = [...new Set(data.rows.map((row) => row.workload))];
    const policies = [...new Set(data.rows.map((row) => row.policy))];
    const place = el('div', {});
    const draw = (key) => {
      const words = STUDY.find(([name]) => name === key)[1];
      const find = (workload, policy) => data.rows.find((row) => row.workload === workload && row.policy === policy);
      const rows = workloads.map((workload) => {
        const own = policies.map((policy) => find(workload, policy));
        const values = own.map((row) => row?.[key]).filter((v) => typeof v === 'number');
        const [low, high] = [Math.min(...values), Math.max(...values)];
        return [workload.split('/').pop(), ...own.map((row) => {
          if (!row) return el('td', {}, '–');
          if (row.result !== 'pass') return el('td', { class: 'bad', title: row.result }, 'failed');
          const v = row[key];
          if (typeof v !== 'number') return el('td', {}, '–');
          // A speed-up is told by its distance from one, on either side; others by their place in the row.
          const style = key === 'speedup' ? heat(Math.abs(Math.log2(v)), 1, v < 1 ? 'heat' : 'cool') : heat(v - low, high - low);
          return cell(v, { style, title: `${workload}, ${row.policy}` });
        })];
      });
      if (key === 'speedup') {
        rows.push(['geometric mean', ...policies.map((policy) => {
          const values = data.rows.filter((row) => row.policy === policy && typeof row.speedup === 'number').map((row) => row.speedup);
          return el('td', { 'data-mean': policy }, el('strong', {}, show(mean(values))));
        })]);
      }
      place.replaceChildren(table(words, ['workload', ...policies], rows));
    };
    draw('speedup');
    const failed = data.rows.filter((row) => row.result !== 'pass');
    return [
      el('p', {}, `${workloads.length} workloads under ${policies.length} reconvergence policies. ${failed.length === 0 ? 'Every result was right.' : ''} Speed-ups: blue is faster than the post-dominator stack, orange slower.`),
      el('div', { class: 'controls' }, choice('figure', STUDY.map(([name]) => name), 'speedup', draw)), place,
      failed.length > 0 && table('Runs without a good result', ['workload', 'policy', 'result'], failed.map((row) => [row.workload, row.policy, el('td', { class: 'text wrap' }, row.result)])),
    ];
  }
  for (const [i, data] of DATA.studies.entries()) section(`study${i}`, `Reconvergence policies, ${data.name}`, 2, study(data));

  // Paper shows what is folded.
  addEventListener('beforeprint', () => document.querySelectorAll('details').forEach((node) => { node.dataset.was = node.open; node.open = true; }));
  addEventListener('afterprint', () => document.querySelectorAll('details').forEach((node) => { node.open = node.dataset.was === 'true'; }));
  document.body.dataset.ready = 'true';
})();
