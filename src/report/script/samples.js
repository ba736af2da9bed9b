
  // Counters over time (`--sample-every`).

  function overTime(runs) {
    const machine = (report) => report.machine;
    const peak = (report, key) => (machine(report) && machine(report)[key] > 0 ? machine(report)[key] / (machine(report).core_khz * 1000) : 0);
    const hits = (s, level) => {
      const [hit, merged, missed] = ['hits', 'merges', 'misses'].map((own) => s[`${level}_${own}`]);
      return hit + merged + missed > 0 ? 100 * hit / (hit + merged + missed) : undefined;
    };
    const plots = [
      ['issue slots used', '%', (s, r) => 100 * s.issued / ((s.to - s.from) * r.sms * r.schedulers)],
      ['resident warps', 'mean of an SM', (s, r) => s.warp_cycles / ((s.to - s.from) * r.sms)],
      ['slots that wait for memory', '%', (s, r) => 100 * (s.stalls.memory || 0) / ((s.to - s.from) * r.sms * r.schedulers)],
      ['L1 lines', '% of peak', (s, r) => (peak(r, 'l1_bytes_per_second') > 0 ? 100 * s.l1_transactions * r.machine.line_bytes / (s.to - s.from) / peak(r, 'l1_bytes_per_second') : undefined)],
      ['bytes between SMs and L2', '% of peak', (s, r) => (peak(r, 'l2_bytes_per_second') > 0 ? 100 * s.l2_bytes / (s.to - s.from) / peak(r, 'l2_bytes_per_second') : undefined)],
      ['DRAM bytes', '% of peak', (s, r) => (peak(r, 'dram_bytes_per_second') > 0 ? 100 * s.dram_bytes / (s.to - s.from) / peak(r, 'dram_bytes_per_second') : undefined)],
      ['L1 hit rate', '%', (s) => hits(s, 'l1')],
      ['L2 hit rate', '%', (s) => hits(s, 'l2')],
    ];
    const place = el('div', { class: 'small' });
    // The first launch is under way before any block runs: plots begin where one does.
    const running = (report) => {
      const first = report.samples.list.findIndex((s) => s.warp_cycles > 0);
      return report.samples.list.slice(Math.max(0, first));
    };
    const draw = (unit) => {
      const scale = (report) => (unit === 'µs' ? micros(report, 1) || 1 : 1);
      place.replaceChildren(...plots.map(([name, of, value]) => {
        const series = runs.map((run, i) => ({ name: run.name, run: i, points: running(run.report).map((s) => [s.from * scale(run.report), s.to * scale(run.report), value(s, run.report)]).filter((p) => p[2] !== undefined) })).filter((s) => s.points.length > 0);
        if (series.length === 0) return '';
        return figure(`${name} over time`, '', (width) => timeplot(width, name, of, series, unit),
          () => [['run', `from, ${unit}`, `to, ${unit}`, `${name}, ${of}`], ...series.flatMap((s) => s.points.map((p) => [s.name, ...p]))]);
      }).filter(Boolean));
    };
    draw('core cycles');
    const FIELDS = ['issued', 'warp_instructions', 'warp_cycles', 'l1_transactions', 'l1_hits', 'l1_merges', 'l1_misses', 'l2_bytes', 'l2_hits', 'l2_merges', 'l2_misses', 'dram_bytes'];
    return [
      el('p', {}, `What was counted in every ${[...new Set(runs.map((run) => show(run.report.samples.every)))].join(', ')} core cycles. Plots begin with the first sample in which a warp is resident; the table has all of them.`),
      el('div', { class: 'controls' }, choice('time in', ['core cycles', 'µs'], 'core cycles', draw)),
      runs.length > 1 && legend(runs.map((run) => run.name), runs.map((_, i) => colour(i))), place,
      el('details', {}, el('summary', {}, 'Samples in numbers'), runs.map((run) =>
        table(`Samples of ${run.name}`, ['from', 'to', ...FIELDS], run.report.samples.list.map((s) => [s.from, s.to, ...FIELDS.map((key) => s[key])])))),
    ];
  }
