
  // Memory, latencies and launches; several runs have a column or a row each.

  function memory(runs) {
    const timed = runs.filter(counted);
    if (timed.length === 0) return [el('p', {}, 'No run has counts of its memory.')];
    const rate = (part, whole) => el('td', { 'data-value': whole > 0 ? 100 * part / whole : undefined }, percent(part, whole));
    const names = timed.map((run) => run.name);
    const heads = timed.length > 1 ? names : ['count'];
    /** A table of counters: each a name and how a report has it. */
    const counters = (caption, list) => table(caption, ['', ...heads], list.map(([name, of]) => [name, ...timed.map((run) => {
      const value = of(run.report.memory, run.report);
      return value instanceof Node ? value : cell(value);
    })]));
    const CACHE = ['hits', 'merges', 'misses', 'evictions', 'write_backs', 'reservation_fails'];
    const cache = (name, key) => [...CACHE.map((own) => [`${name} ${own.replace('_', '-')}`, (m) => m[key][own]]),
      [`${name} hit rate`, (m) => rate(m[key].hits, m[key].hits + m[key].merges + m[key].misses)]];
    const bursts = (d) => d.row_hits + d.row_misses + d.row_conflicts;
    const queues = [...new Set(timed.flatMap((run) => Object.keys(run.report.memory.queues || {})))].map((name) => [name, (m) => m.queues[name]]).concat([['dram', (m) => m.dram.queue]]);
    const turns = [...new Set(timed.flatMap((run) => Object.keys(run.report.memory.on_chip_turns || {})))].sort((a, b) => a - b);
    return [
      el('div', { class: 'sides' }, el('div', {},
        counters('Caches, all SMs and slices', [...cache('L1', 'l1'), ...cache('L2', 'l2')])), el('div', {},
        counters('Traffic', [['accesses of warps', (m) => m.accesses], ['line transactions', (m) => m.transactions],
          ['bytes requested by lanes', (m) => m.bytes_useful], ['bytes between SMs and L2', (m) => m.bytes_moved], ['atomics at L2, by lane', (m) => m.atomics],
          ['accesses to shared and constant memory', (m) => m.on_chip_accesses], ['cycles lost to bank conflicts and serialized shared atomics', (m) => m.conflict_cycles]]),
        counters('DRAM, all channels', [['reads', (m) => m.dram.reads], ['writes', (m) => m.dram.writes], ['bytes', (m) => m.dram.bytes],
          ['of peak bandwidth', (m, report) => rate(report.cycles > 0 && report.machine ? m.dram.bytes / (report.cycles / (report.machine.core_khz * 1000)) : 0, report.cycles > 0 && report.machine ? report.machine.dram_bytes_per_second : 0)],
          ['bursts that found their row open', (m) => m.dram.row_hits], ['row hits, of all bursts', (m) => rate(m.dram.row_hits, bursts(m.dram))],
          ['bursts that found no row open', (m) => m.dram.row_misses], ['bursts that found another row open', (m) => m.dram.row_conflicts],
          ['bus turnarounds between reads and writes', (m) => m.dram.turnarounds], ['refreshes', (m) => m.dram.refreshes],
          ['command-clock cycles the data buses moved bytes', (m) => m.dram.busy_cycles]]))),
      el('details', {}, el('summary', {}, 'Queues and bank conflicts'),
        counters('Queues: mean number of entries over the run, all queues together', queues.map(([name, of]) => [name, (m, report) =>
          el('td', { 'data-value': of(m).entry_cycles }, report.cycles ? show(of(m).entry_cycles / report.cycles) : '–')])),
        counters('Queues: maximum number of entries in one', queues.map(([name, of]) => [name, (m) => of(m).most])),
        turns.length > 0 && counters('Accesses to shared and constant memory by turns they took', turns.map((n) => [`${n} ${n === '1' ? 'turn' : 'turns'}`, (m) => m.on_chip_turns[n] || 0]))),
    ];
  }

  const QUANTILES = ['min', 'p50', 'p90', 'p99', 'max'];
  function latencies(runs) {
    const list = runs.filter(counted).flatMap((run) => {
      const m = run.report.memory;
      return [...Object.entries(m.load_latency).map(([level, p]) => [`loads, ${level.toUpperCase()}`, p]), ['stores', m.store_latency], ['atomics', m.atomic_latency]]
        .filter(([, p]) => p && p.count > 0).map(([name, p]) => [runs.length > 1 ? `${name}, ${run.name}` : name, p, name]);
    });
    if (list.length === 0) return [el('p', {}, 'No access to global or local memory.')];
    // What is compared lies beside each other, in the order of the runs.
    list.sort(([, , a], [, , b]) => (a < b ? -1 : Number(a > b)));
    const HEADS = ['', 'transactions', ...QUANTILES];
    const rows = list.map(([name, p]) => [name, p.count, ...QUANTILES.map((q) => p[q])]);
    const place = el('div', {});
    const draw = (kind) => {
      const picture = (width) => {
        const row = 30, left = Math.min(width * .4, Math.max(...list.map(([name]) => widthIn(name))) + 14), height = list.length * row + 46;
        const most = Math.max(...list.map(([, p]) => p.max));
        const x = kind === 'logarithmic' ? logarithmic([Math.max(1, Math.min(...list.map(([, p]) => p.min))), most], [left, width - 22]) : linear([0, most], [left, width - 22]);
        const grid = x.ticks.map((v) => [svg('line', { class: 'grid', x1: x(v), x2: x(v), y1: 4, y2: height - 38 }),
          svg('text', { class: 'dim', x: Math.min(x(v), width - widthIn(tick(v)) / 2 - 1), y: height - 24, 'text-anchor': 'middle' }, tick(v))]);
        const bars = list.map(([name, p], i) => {
          const y = i * row + 18;
          const at = (q) => x(Math.max(kind === 'logarithmic' ? 1 : 0, p[q]));
          return [words(name, left - 12, { x: left - 8, y: y + 4, 'text-anchor': 'end' }),
            svg('line', { x1: at('min'), x2: at('max'), y1: y, y2: y, stroke: 'var(--dim)' }),
            svg('rect', { x: at('p50'), y: y - 7, width: Math.max(1, at('p90') - at('p50')), height: 14, fill: colour(2), opacity: .55 }),
            svg('line', { x1: at('p50'), x2: at('p50'), y1: y - 9, y2: y + 9, stroke: 'var(--ink)', 'stroke-width': 2 }),
            svg('circle', { cx: at('p99'), cy: y, r: 4, fill: colour(1) })];
        });
        return canvas(width, height, 'Latencies of transactions', grid, bars,
          svg('text', { class: 'dim', x: width - 4, y: height - 6, 'text-anchor': 'end' }, 'core cycles'));
      };
      place.replaceChildren(figure('Latencies', 'Line: from the smallest to the largest. Stroke: median. Box: median to 90 %. Dot: 99 %.', picture, () => [HEADS, ...rows]));
    };
    draw('logarithmic');
    return [el('div', { class: 'controls' }, choice('axis', ['logarithmic', 'linear'], 'logarithmic', draw)), place,
      table('Latencies of transactions, core cycles', HEADS, rows)];
  }

  const launches = (runs) => {
    const several = runs.length > 1;
    const sampled = runs.some((run) => run.report.kernels.some((k) => k.sampled));
    const interval = (k) => (k.sampled ? `${show(k.sampled.cycles_low)} to ${show(k.sampled.cycles_high)}` : '');
    return table('Launches', [...(several ? ['run'] : []), 'kernel', 'grid', 'block', 'µs', 'core cycles', ...(sampled ? ['with 95 % confidence'] : []), 'from', 'to', 'warp instructions', 'registers', 'shared bytes', 'blocks per SM', 'limit'],
      runs.flatMap((run) => run.report.kernels.map((k) => [...(several ? [run.name] : []), k.name, k.grid.join(' × '), k.block.join(' × '), cell(micros(run.report, k.cycles)), k.cycles, ...(sampled ? [interval(k)] : []), k.start_cycle, k.end_cycle,
        k.warp_instructions, k.registers_per_thread, k.shared_bytes, k.resident_blocks, k.occupancy_limit])));
  };
