
  // The sections of runs.

  function stalls(runs) {
    const timed = runs.filter((run) => sum(slots(run.report)) > 0);
    if (timed.length === 0) return [el('p', {}, NO_SLOTS)];
    const used = usedSlots(timed.map((run) => slots(run.report)));
    const list = (report) => (report.by_sm || []).map((sm, i) => [`SM ${i}`, { issued: sm.issued, ...sm.stalls }]);
    /** Neighbours without a warp are one bar where they are many. */
    const drawn = (report) => {
      const out = [];
      let first = 0;
      const all = list(report);
      const idle = ([, parts]) => sum(parts) === (parts.idle || 0);
      for (let i = 0; i < all.length; i = first) {
        first = i;
        while (first < all.length && idle(all[first])) first += 1;
        if (first - i > 3) out.push([`SM ${i}–${first - 1}`, all[i][1]]);
        else out.push(...all.slice(i, first = Math.max(first, i + 1)));
      }
      return out;
    };
    const row = ([name, parts]) => [name, ...used.map((slot) => parts[slot] || 0)];
    return [
      legend(used, used.map((slot) => SLOT_COLOUR[slot])),
      sides(timed, (run) => [
        figure(timed.length > 1 ? `Issue slots of ${run.name} by SM` : 'Issue slots by SM', 'Issue slots of every SM; neighbours that had no warp share a bar.', (width) => slotBars(width, drawn(run.report), 14, 3), () => slotRows(list(run.report))),
        el('details', {}, el('summary', {}, 'Issue slots in numbers'),
          table(timed.length > 1 ? `Issue slots of ${run.name}, schedulers × core cycles` : 'Issue slots, schedulers × core cycles', ['', ...used], [['chip', slots(run.report)], ...list(run.report)].map(row), { class: 'matrix' })),
      ]),
    ];
  }

  if (DATA.runs.length > 0) {
    const runs = DATA.runs;
    section('summary', 'What bounds it', 2, summary(runs));
    section('figures', 'Figures', 2, figures(runs));
    const sampled = runs.filter((run) => run.report.samples);
    if (sampled.length > 0) section('time', 'Over time', 2, overTime(sampled));
    section('roofline', 'Roofline', 2, [...roofline(runs), ...tensorRoofline(runs)]);
    section('stalls', 'Issue slots and stalls', 2, stalls(runs));
    section('memory', 'Caches and DRAM', 2, memory(runs));
    section('latency', 'Latency', 2, latencies(runs));
    section('launches', 'Launches', 2, launches(runs));
    section('program', 'Program', 2, program(runs));
  }
