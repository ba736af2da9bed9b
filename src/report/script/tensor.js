
  // The roofline of tensor cores.

  function tensorRoofline(runs) {
    const LEVELS = ['L2', 'DRAM'];
    const points = [];
    for (const [i, run] of runs.entries()) {
      const { report } = run;
      const m = report.machine;
      const peaks = m && m.tensor_multiply_adds_per_second;
      if (!peaks || !report.tensor || !report.cycles) continue;
      const seconds = report.cycles / (m.core_khz * 1e3);
      const traffic = [['L2', report.memory.bytes_moved, m.l2_bytes_per_second], ['DRAM', report.memory.dram.bytes, m.dram_bytes_per_second]];
      for (const [type, count] of Object.entries(report.tensor.by_type)) {
        for (const [level, bytes, slope] of traffic) {
          if (bytes > 0 && slope > 0 && peaks[type] > 0) {
            points.push({ run, number: i + 1, type, level, bytes, slope, peak: peaks[type], rate: count / seconds / 1e12, intensity: count / bytes });
          }
        }
      }
    }
    if (points.length === 0) return [];
    const ceilings = new Map();
    for (const p of points) ceilings.set(`${p.run.report.chip} ${p.type}`, p);
    const list = [...ceilings.entries()];
    const HEADS = ['run', 'type', 'level', 'bytes', 'multiply-adds per byte', '10¹² multiply-adds per second', 'peak', 'of the roof, %'];
    const roof = (p) => Math.min(p.peak / 1e12, p.intensity * p.slope / 1e12);
    const rows = points.map((p) => [p.run.name, p.type, p.level, p.bytes, p.intensity, p.rate, p.peak / 1e12, 100 * p.rate / roof(p)]);
    const draw = (width) => {
      const height = Math.round(Math.min(440, width * .7 + 80));
      const xs = points.flatMap((p) => [p.intensity, p.peak / p.slope]);
      const area = frame(width, height, { title: 'multiply-adds per byte', log: true, range: [Math.min(...xs) / 2, Math.max(...xs) * 2] },
        { title: '10¹² multiply-adds per second', log: true, range: [Math.min(...points.map((p) => p.rate)) / 2, Math.max(...points.map((p) => p.peak / 1e12)) * 1.3] });
      const { x, y } = area;
      const clip = `clip${(clips += 1)}`;
      const lines = list.flatMap(([, at], c) => {
        const peak = at.peak / 1e12;
        const own = points.filter((p) => p.run.report.chip === at.run.report.chip && p.type === at.type);
        return [svg('line', { x1: area.left, x2: area.right, y1: y(peak), y2: y(peak), stroke: 'var(--ink)', 'stroke-dasharray': dash(c * 10) }),
          ...LEVELS.flatMap((level) => own.filter((p) => p.level === level).slice(0, 1)).map((p) => svg('line', {
            x1: x(x.range[0]), y1: y(x.range[0] * p.slope / 1e12), x2: x(p.peak / p.slope), y2: y(peak),
            stroke: colour(LEVELS.indexOf(p.level)), 'stroke-width': 1.5, 'stroke-dasharray': dash(c * 10), 'clip-path': `url(#${clip})`,
          }))];
      });
      return underRoof(width, height, 'Roofline of tensor cores', area, clip, lines, points, LEVELS, runs.length > 1,
        (p) => `${p.run.name}, ${p.type}, ${p.level}: ${show(p.rate)}·10¹² multiply-adds per second at ${show(p.intensity)} per byte`);
    };
    return [
      el('p', {}, 'Multiply-adds of tensor cores per second over multiply-adds per byte of L2 and DRAM. Flat: the peak of a type, all tensor cores, dense products. Slopes: the peak bandwidth of a level.'),
      legend(LEVELS, LEVELS.map((_, i) => colour(i))),
      figure('Roofline of tensor cores', `Peaks of ${list.map(([name], c) => (list.length > 1 ? `${name} (${DASH_WORDS[c % DASHES.length]})` : name)).join(', ')}.`, draw, () => [HEADS, ...rows]),
      el('details', {}, el('summary', {}, 'Roofline of tensor cores in numbers'),
        table('Roofline of tensor cores', HEADS, rows.map((row) => row.map((v, i) => (i === 1 || i === 2 ? el('td', { class: 'text' }, v) : v))))),
    ];
  }
