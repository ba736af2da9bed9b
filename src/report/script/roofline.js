
  // The roofline.

  /** A picture of points below ceilings. Points at one place are rings around each other, and one label names their runs. */
  function underRoof(width, height, title, area, clip, lines, points, levels, labelled, said) {
    const { x, y } = area;
    const groups = gather(points.map((p) => ({ ...p, at: [x(p.intensity), y(p.rate)] })), 7);
    const marks = groups.flatMap((g) => {
      const kinds = levels.filter((level) => g.points.some((p) => p.level === level));
      return kinds.map((level, i) => svg('circle', { cx: g.at[0], cy: g.at[1], r: 4.5 + 3.5 * (kinds.length - 1 - i), fill: colour(levels.indexOf(level)), stroke: 'var(--paper)' },
        svg('title', {}, g.points.filter((p) => p.level === level).map(said).join('\n'))));
    });
    const texts = groups.map((g) => ({ at: g.at, r: 4.5 + 3.5 * (new Set(g.points.map((p) => p.level)).size - 1), text: [...new Set(g.points.map((p) => p.number))].join(', ') }));
    const taken = groups.map((g) => ({ x: g.at[0] - 5, y: g.at[1] - 5, w: 10, h: 10 }));
    return canvas(width, height, title,
      svg('defs', {}, svg('clipPath', { id: clip }, svg('rect', { x: area.left, y: area.top, width: area.right - area.left, height: area.bottom - area.top }))),
      area.nodes, lines, marks, labelled ? label(texts, area, taken) : []);
  }

  function roofline(runs) {
    const points = [];
    for (const [i, run] of runs.entries()) {
      const { report } = run;
      const m = report.machine;
      if (!m || !report.cycles || !report.warp_instructions || !counted(run)) continue;
      const seconds = report.cycles / (m.core_khz * 1e3);
      const rate = report.warp_instructions / seconds / 1e9;
      const levels = [['L1', report.memory.transactions * m.line_bytes, m.l1_bytes_per_second],
        ['L2', report.memory.bytes_moved, m.l2_bytes_per_second], ['DRAM', report.memory.dram.bytes, m.dram_bytes_per_second]];
      for (const [level, bytes, peak] of levels) {
        // A chip without the cache has no ceiling there.
        if (bytes > 0 && peak > 0) points.push({ run, number: i + 1, level, bytes, peak, rate, intensity: report.warp_instructions / bytes });
      }
    }
    if (points.length === 0) return [el('p', {}, 'No run has both time and traffic.')];
    const levels = ['L1', 'L2', 'DRAM'];
    const chips = new Map();
    for (const { run } of points) chips.set(run.report.chip, run.report.machine);
    const HEADS = ['run', 'level', 'bytes', 'warp instructions per byte', '10⁹ warp instructions per second', 'of peak'];
    const rows = points.map((p) => [p.run.name, p.level, p.bytes, p.intensity, p.rate,
      Math.min(p.run.report.machine.warp_instructions_per_second / 1e9, p.intensity * p.peak / 1e9)]);
    const draw = (width) => {
      const height = Math.round(Math.min(440, width * .7 + 80));
      const ceilings = [...chips.values()];
      const top = Math.max(...ceilings.map((m) => m.warp_instructions_per_second / 1e9));
      const xs = points.map((p) => p.intensity).concat(ceilings.flatMap((m) =>
        [m.warp_instructions_per_second / m.dram_bytes_per_second]));
      const area = frame(width, height, { title: 'warp instructions per byte', log: true, range: [Math.min(...xs) / 2, Math.max(...xs) * 2] },
        { title: '10⁹ warp instructions per second', log: true, range: [Math.min(...points.map((p) => p.rate)) / 2, top * 1.2] });
      const { x, y } = area;
      const clip = `clip${(clips += 1)}`;
      const lines = ceilings.flatMap((m, c) => {
        const peak = m.warp_instructions_per_second / 1e9;
        const flat = svg('line', { x1: area.left, x2: area.right, y1: y(peak), y2: y(peak), stroke: 'var(--ink)', 'stroke-dasharray': dash(c * 10) });
        const slopes = [['L1', m.l1_bytes_per_second], ['L2', m.l2_bytes_per_second], ['DRAM', m.dram_bytes_per_second]];
        return [flat, ...slopes.filter(([, b]) => b > 0).map(([level, bytes]) => {
          const knee = peak / (bytes / 1e9);
          return svg('line', {
            x1: x(x.range[0]), y1: y(x.range[0] * bytes / 1e9), x2: x(knee), y2: y(peak),
            stroke: colour(levels.indexOf(level)), 'stroke-width': 1.5, 'stroke-dasharray': dash(c * 10), 'clip-path': `url(#${clip})`,
          });
        })];
      });
      return underRoof(width, height, 'Instruction roofline', area, clip, lines, points, levels, runs.length > 1,
        (p) => `${p.run.name}, ${p.level}: ${show(p.rate)}·10⁹ warp instructions per second at ${show(p.intensity)} per byte`);
    };
    return [
      el('p', {}, 'Warp instructions per second over warp instructions per byte of each level of memory (an instruction roofline, after Ding and Williams, 2019). Flat: the peak issue rate of all schedulers. Slopes: the peak bandwidth of a level. A point far below both is limited by latency.'),
      legend(levels, levels.map((_, i) => colour(i))),
      runs.length > 1 && el('ol', { class: 'keys' }, runs.map((run) => el('li', {}, run.name))),
      figure('Roofline', `Ceilings of ${[...chips.keys()].map((chip, c) => (chips.size > 1 ? `${chip} (${DASH_WORDS[c % DASHES.length]})` : chip)).join(', ')}. Overlapping points are drawn as rings${runs.length > 1 ? '; numbers are runs' : ''}.`, draw, () => [HEADS, ...rows]),
      el('details', {}, el('summary', {}, 'Roofline in numbers'),
        table('Roofline', HEADS, rows.map((row) => row.map((v, i) => (i === 1 ? el('td', { class: 'text' }, v) : v))))),
    ];
  }
  let clips = 0;
