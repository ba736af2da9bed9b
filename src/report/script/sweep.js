
  // Sweeps.

  const ALL = 'all (geometric mean)';
  // An integer that a number of the browser would round is a name: two of them must not be one place.
  const number = (text) => {
    const value = text === '' ? NaN : Number(text);
    return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value)) ? value : undefined;
  };
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
  const valuesOf = (series) => series.flatMap((s) => s.values).filter((v) => v !== undefined);

  /** The range of an axis; a logarithmic one has positive values only. */
  const yAxis = (title, values, log, base) => {
    const positive = values.filter((v) => v > 0);
    return log && positive.length > 0 ? { title, log: true, range: [Math.min(...positive), Math.max(...positive)] }
      : { title, range: [Math.min(base, ...values), Math.max(base, ...values)] };
  };

  function lines(width, xs, series, names, log) {
    const numbers = xs.map(number);
    const byNumber = numbers.every((n) => n !== undefined) && xs.length > 1;
    // Factors rather than steps: a logarithmic axis.
    const far = byNumber && Math.min(...numbers) > 0 && Math.max(...numbers) / Math.min(...numbers) > 50;
    const area = frame(width, 380, byNumber ? { title: names[0], log: far, range: [Math.min(...numbers), Math.max(...numbers)] } : { title: names[0], words: xs }, yAxis(names[1], valuesOf(series), log, 0));
    const at = (i) => (byNumber ? area.x(numbers[i]) : area.at(i));
    const shown = (v) => v !== undefined && (!area.y.range || v >= area.y.range[0]) && !(log && v <= 0);
    const nodes = series.map((s, n) => {
      const points = s.values.map((v, i) => (shown(v) ? [at(i), area.y(v), v, xs[i]] : undefined)).filter(Boolean);
      return [svg('polyline', { points: points.map(([a, b]) => `${a},${b}`).join(' '), fill: 'none', stroke: colour(n), 'stroke-width': 2, 'stroke-dasharray': dash(n) }),
        points.map(([a, b, v, word]) => svg('circle', { cx: a, cy: b, r: 3.5, fill: colour(n), 'data-value': v }, svg('title', {}, `${s.name} ${word}: ${show(v)}`)))];
    });
    return canvas(width, 380, `${names[1]} over ${names[0]}`, area.nodes, nodes);
  }

  function bars(width, xs, series, names, log) {
    const area = frame(width, 380, { title: names[0], words: xs }, yAxis(names[1], valuesOf(series), log, 0));
    const each = area.room * .82 / series.length;
    const floor = log && area.y.range[0] > 0 ? area.bottom : area.y(0);
    const nodes = series.map((s, n) => s.values.map((v, i) => v !== undefined && !(log && v <= 0) && svg('rect', {
      x: area.left + area.room * (i + .09) + each * n, y: Math.min(area.y(v), floor), width: Math.max(1, each - 1), height: Math.max(1, Math.abs(floor - area.y(v))),
      fill: colour(n), 'data-value': v,
    }, svg('title', {}, `${s.name} ${xs[i]}: ${show(v)}`))));
    return canvas(width, 380, `${names[1]} over ${names[0]}`, area.nodes, nodes.flat().filter(Boolean));
  }

  function grid(xs, series, names) {
    const values = valuesOf(series);
    const low = Math.min(...values), high = Math.max(...values);
    return table(`${names[1]}; darker is more`, [`${names[2]} \\ ${names[0]}`, ...xs], series.map((s) =>
      [s.name, ...s.values.map((v) => cell(v, { style: v === undefined ? undefined : heat(v - low, high - low) }))]), { class: 'matrix' });
  }

  /** Points that no other beats in both. */
  function front(points, less) {
    const better = (a, b, i) => (less[i] ? a[i] < b[i] : a[i] > b[i]);
    const beats = (a, b) => !better(b, a, 0) && !better(b, a, 1) && (better(a, b, 0) || better(a, b, 1));
    return points.filter((p) => !points.some((q) => beats(q.at, p.at)));
  }
  const MORE = new Set(['ipc', 'lane_utilisation', 'issued', 'occupancy', 'peak.issue', 'memory.l1.hit_rate', 'memory.l2.hit_rate', 'memory.dram.row_hit_rate']);

  function pareto(width, points, names, log) {
    const less = names.map((name) => !MORE.has(name));
    const best = front(points, less).sort((a, b) => a.at[0] - b.at[0] || a.at[1] - b.at[1]);
    const axis = (i) => {
      const values = points.map((p) => p.at[i]);
      const range = [Math.min(...values), Math.max(...values)];
      return { title: `${named(names[i])}, ${less[i] ? 'less' : 'more'} is better`, log: log && range[0] > 0, range };
    };
    const area = frame(width, 400, axis(0), axis(1));
    const { x, y } = area;
    // Points of the front have the numbers of their rows; points that lie on each other are one mark with their count.
    const numbers = new Map(best.map((p, i) => [p, i + 1]));
    const groups = gather(points.map((p) => ({ p, at: [x(p.at[0]), y(p.at[1])] })).sort((a, b) => numbers.has(b.p) - numbers.has(a.p)), 6);
    const marks = groups.map((g) => {
      const own = g.points.filter(({ p }) => numbers.has(p));
      const r = (own.length > 0 ? 5 : 3.5) + Math.min(4, Math.log2(g.points.length));
      const kind = own.length > 0 ? colour(1) : colour(8);
      return { at: g.at, r, text: [own.length > 0 ? numbers.get(own[0].p) + (own.length > 1 ? '…' : '') : '', g.points.length > 1 ? `(${g.points.length})` : ''].filter(Boolean).join(' '),
        node: svg('circle', { cx: g.at[0], cy: g.at[1], r, fill: kind, stroke: 'var(--paper)', 'data-points': g.points.length }, svg('title', {}, g.points.map(({ p }) => p.name).join('\n'))) };
    });
    const taken = marks.map(({ at, r }) => ({ x: at[0] - r, y: at[1] - r, w: 2 * r, h: 2 * r }));
    return { best, picture: canvas(width, 400, `Pareto front of ${names.join(' and ')}`, area.nodes,
      svg('polyline', { points: best.map((p) => `${x(p.at[0])},${y(p.at[1])}`).join(' '), fill: 'none', stroke: colour(1), 'stroke-width': 1.5 }),
      marks.map((mark) => mark.node), label(marks.filter((mark) => mark.text), area, taken)) };
  }

  /** A metric that says something about these points: the first of the wanted ones that varies, or any that does. */
  function telling(points, metrics, wanted, not) {
    const varies = (name) => new Set(points.map((p) => p.values[name]).filter((v) => v !== undefined)).size > 1;
    const rest = metrics.filter((name) => name !== not);
    return wanted.find((name) => rest.includes(name) && varies(name)) ?? rest.find(varies) ?? rest[0] ?? metrics[0];
  }

  /** Chips of different clocks are compared by time, not by cycles. */
  function clocksDiffer(points) {
    const clocks = points.map((p) => p.values.cycles / p.values.time_us).filter((clock) => Number.isFinite(clock) && clock > 0);
    // Times are rounded to picoseconds.
    return clocks.length > 0 && Math.max(...clocks) / Math.min(...clocks) > 1.001;
  }

  const NO_BASE = 'nothing';
  function sweep(data) {
    const good = data.points.filter((p) => Object.keys(p.values).length > 0);
    const metrics = DATA.metrics.map((m) => m.name).filter((name) => good.some((p) => p.values[name] !== undefined));
    const values = data.axes.map((_, i) => distinct(data.points.map((p) => p.axes[i])));
    const many = data.axes.map((_, i) => i).filter((i) => values[i].length > 1);
    const order = [...many].sort((a, b) => values[b].length - values[a].length);
    // A chip is read from left to right before a workload is; a key of a chip before both.
    const first = order.find((i) => values[i].every((v) => number(v) !== undefined)) ?? order.find((i) => data.axes[i] === 'chip') ?? order[0] ?? 0;
    const second = order.find((i) => i !== first) ?? first;
    const metric = telling(good, metrics, clocksDiffer(good) ? ['time_us', 'cycles'] : ['cycles']);
    const other = telling(good, metrics, ['memory.dram.bytes', 'memory.bytes_moved', 'issued', 'warp_instructions'], metric);
    const state = { kind: values[first].every((v) => number(v) !== undefined) ? 'line' : 'bar', metric, x: first, series: second, other, log: false, base: NO_BASE, rest: new Map() };
    for (const i of many) state.rest.set(i, ALL);
    const controls = el('div', { class: 'controls' });
    const place = el('div', {});
    let width = 700;
    const fits = (p, but) => many.every((i) => but.includes(i) || state.rest.get(i) === ALL || p.axes[i] === state.rest.get(i));
    const bases = many.flatMap((i) => values[i].map((value) => [`${data.axes[i]} ${value}`, i, value]));
    /** The axes over which means are taken, and a point's place on them. */
    const averaged = () => many.filter((i) => i !== state.x && i !== state.series && state.rest.get(i) === ALL);
    const placeOf = (p) => averaged().map((i) => p.axes[i]).join('\n');
    /** The points at these values of axes. */
    const those = (fixed) => good.filter((p) => fits(p, [...fixed.keys()]) && [...fixed].every(([i, v]) => p.axes[i] === v) && p.values[state.metric] !== undefined);
    const at = (fixed, kept) => mean(those(fixed).filter((p) => !kept || kept.has(placeOf(p))).map((p) => p.values[state.metric]));
    const fixedAt = (x, name) => new Map([[state.x, x], ...(state.series === state.x ? [] : [[state.series, name]])]);
    /** The places that a line has at each of its values: means are over these, so that they are of the same points. */
    const common = (xs, name) => {
      const sets = xs.map((x) => new Set(those(fixedAt(x, name)).map(placeOf))).filter((set) => set.size > 0);
      const all = new Set(sets.flatMap((set) => [...set]));
      const kept = [...all].filter((place) => sets.every((set) => set.has(place)));
      return { kept: kept.length > 0 && kept.length < all.size ? new Set(kept) : undefined, whole: kept.length === all.size };
    };
    const value = (x, name, kept) => {
      const own = at(fixedAt(x, name), kept);
      const base = bases.find(([text]) => text === state.base);
      if (!base || own === undefined) return own;
      const [, i, v] = base;
      const of = at(new Map([...fixedAt(x, name), [i, v]]), averaged().includes(i) ? undefined : kept);
      return of === undefined || of === 0 ? undefined : own / of;
    };
    const fill = (name, words, picture, rows, before, after) => {
      const shown = el('div', {}, picture);
      place.replaceChildren(el('figure', { 'data-figure': name }, before || '', shown, words ? el('figcaption', {}, words) : '', picture.tagName === 'svg' ? exportsOf(name, shown, rows) : ''), after || '');
    };
    const draw = () => {
      if (state.kind === 'Pareto') {
        const list = good.filter((p) => fits(p, []))
          .filter((p) => p.values[state.metric] !== undefined && p.values[state.other] !== undefined)
          .map((p) => ({ name: many.map((i) => `${data.axes[i]} ${p.axes[i]}`).join(', '), at: [p.values[state.metric], p.values[state.other]] }));
        if (list.length === 0) { place.replaceChildren(el('p', {}, 'No point has both.')); return; }
        const names = [state.metric, state.other];
        const { best, picture } = pareto(width, list, names, state.log);
        fill(`Pareto front of ${data.name}`, `Orange: the front, by the numbers of its rows below. Grey: points that another point beats in both metrics. In brackets: the number of points at a mark.`, picture, () => [['point', ...names], ...list.map((p) => [p.name, ...p.at])], '',
          table('The Pareto front', ['', ...names.map(named), 'point'], best.map((p, i) => [i + 1, ...p.at, el('td', { class: 'text wrap' }, p.name)])));
        return;
      }
      const xs = values[state.x];
      const names = state.series === state.x ? [''] : values[state.series];
      const sets = new Map(names.map((name) => [name, common(xs, name)]));
      const series = names.map((name) => ({ name, values: xs.map((x) => value(x, name, sets.get(name).kept)) })).filter((s) => s.values.some((v) => v !== undefined));
      if (series.length === 0) { place.replaceChildren(el('p', {}, 'No point is left.')); return; }
      const normal = state.base !== NO_BASE;
      const title = [data.axes[state.x], normal ? `${state.metric}, as a multiple of ${state.base}` : named(state.metric), data.axes[state.series]];
      const over = averaged().map((i) => data.axes[i]);
      const parts = [...sets.values()].filter(({ whole }) => !whole);
      const partly = parts.length === 0 ? '' : parts.some(({ kept }) => kept) ? `, of the points that are there at every ${title[0]}` : ', which are not of the same points everywhere';
      const picture = state.kind === 'line' ? lines(width, xs, series, title, state.log) : state.kind === 'bar' ? bars(width, xs, series, title, state.log) : grid(xs, series, title);
      const all = valuesOf(series);
      const flat = all.every((v) => v === all[0]) ? ` All values are ${show(all[0])}.` : state.log && all.some((v) => v <= 0) ? ' Values of 0 and less are not shown on a logarithmic axis.' : '';
      fill(`${state.metric} of ${data.name}`, `${title[1]} over ${title[0]}${names.length > 1 ? ` by ${title[2]}` : ''}${over.length ? `; geometric means over ${over.join(', ')} (arithmetic where a value is not positive)${partly}` : ''}.${flat}`, picture,
        () => [[title[2] === title[0] ? '' : title[2], ...xs], ...series.map((s) => [s.name, ...s.values])],
        state.kind !== 'heat map' && names.length > 1 ? legend(series.map((s) => s.name), series.map((_, i) => colour(i))) : '',
        state.kind === 'heat map' ? '' : el('details', {}, el('summary', {}, 'Plotted values'), table(title[1], [`${title[2]} \\ ${title[0]}`, ...xs], series.map((s) => [s.name, ...s.values.map((v) => cell(v))]), { class: 'matrix' })));
    };
    const names = many.map((i) => data.axes[i]);
    const rebuild = () => {
      const index = (name) => data.axes.indexOf(name);
      const isPlot = state.kind !== 'Pareto';
      controls.replaceChildren(
        choice('plot', ['line', 'bar', 'heat map', 'Pareto'], state.kind, (v) => { state.kind = v; rebuild(); draw(); focus('plot'); }),
        choice('metric', metrics, state.metric, (v) => { state.metric = v; draw(); }),
        ...(!isPlot ? [choice('against', metrics, state.other, (v) => { state.other = v; draw(); })]
          : many.length > 0 ? [choice('from left to right', names, data.axes[state.x], (v) => { state.x = index(v); rebuild(); draw(); focus('from left to right'); }),
            choice('lines', names, data.axes[state.series], (v) => { state.series = index(v); rebuild(); draw(); focus('lines'); })] : []),
        ...(isPlot && many.length > 0 ? [choice('normalised to', [NO_BASE, ...bases.map(([text]) => text)], state.base, (v) => { state.base = v; draw(); })] : []),
        ...(state.kind !== 'heat map' ? [choice('axes', ['linear', 'logarithmic'], state.log ? 'logarithmic' : 'linear', (v) => { state.log = v === 'logarithmic'; draw(); })] : []),
        // A Pareto plot has a mark for each point, not for their mean.
        ...many.filter((i) => !isPlot || (i !== state.x && i !== state.series)).map((i) => {
          const all = isPlot ? ALL : 'all';
          const now = state.rest.get(i);
          return choice(data.axes[i], [all, ...values[i]], now === ALL ? all : now, (v) => { state.rest.set(i, v === all ? ALL : v); draw(); });
        }));
    };
    // A control that is made anew keeps the focus.
    const focus = (name) => [...controls.querySelectorAll('label')].find((node) => node.firstChild.textContent === name)?.querySelector('select')?.focus();
    rebuild();
    watch(place, () => {
      const now = widthOf(place);
      if (now !== width) { width = now; draw(); }
    });
    draw();
    const bad = data.points.filter((p) => !['pass', 'unchecked'].includes(p.result));
    const unchecked = data.points.filter((p) => p.result === 'unchecked').length;
    return [
      el('p', {}, `${data.points.length} points; axes: ${data.axes.map((axis, i) => `${axis} (${values[i].length})`).join(', ')}. ${bad.length > 0 ? `${bad.length} faulted, differ or were refused.` : unchecked === 0 ? 'All ran, and no result differs.' : `All ran; the results of ${unchecked} are unchecked.`}`),
      controls, place,
      bad.length > 0 && el('details', { open: bad.length < 20 }, el('summary', {}, 'Points that did not pass'),
        table('Points that did not pass', [...data.axes, 'result', 'message'], bad.map((p) => [...p.axes.map((v, i) => (i === 0 ? v : el('td', { class: 'text' }, v))), p.result, el('td', { class: 'text wrap' }, p.message)]))),
    ];
  }
  for (const [i, data] of DATA.sweeps.entries()) section(`sweep${i}`, `Sweep ${data.name}`, 2, sweep(data));
