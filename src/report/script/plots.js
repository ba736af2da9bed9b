
  // Scales, axes and the plots that are made of them.

  const nice = (from, to, count) => {
    const rough = (to - from) / Math.max(1, count) || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough * (1 - 1e-9)) || rough;
  };
  function linear([from, to], [a, b]) {
    if (from === to) { from -= Math.abs(from) / 2 || 1; to += Math.abs(to) / 2 || 1; }
    const step = nice(from, to, Math.abs(b - a) / 70);
    // Axes end at ticks.
    from = Math.floor(from / step + 1e-9) * step;
    to = Math.ceil(to / step - 1e-9) * step;
    const scale = (v) => a + (v - from) / (to - from) * (b - a);
    scale.ticks = [];
    for (let i = Math.round(from / step); i * step <= to + step * 1e-6; i += 1) scale.ticks.push(+(i * step).toPrecision(12));
    scale.range = [from, to];
    return scale;
  }
  function logarithmic([from, to], [a, b]) {
    let low = Math.floor(Math.log10(from) + 1e-9);
    let high = Math.max(low + 1, Math.ceil(Math.log10(to) - 1e-9));
    let one = 10;
    if (to / from < 8) {
      // Less than a decade: powers of two.
      one = 2;
      low = Math.floor(Math.log2(from) + 1e-9);
      high = Math.max(low + 1, Math.ceil(Math.log2(to) - 1e-9));
    }
    const scale = (v) => a + (Math.log(v) / Math.log(one) - low) / (high - low) * (b - a);
    const every = Math.max(1, Math.ceil((high - low) * 40 / Math.abs(b - a)));
    scale.ticks = [];
    for (let e = low; e <= high; e += every) scale.ticks.push(one ** e);
    scale.range = [one ** low, one ** high];
    return scale;
  }

  /** A number beside an axis: thousands and millions by their letters. */
  function tick(value) {
    const [letter, one] = [['G', 1e9], ['M', 1e6], ['k', 1e3]].find(([, one]) => Math.abs(value) >= 10 * one || (one > 1e3 && Math.abs(value) >= one)) || ['', 1];
    return letter ? `${+(value / one).toPrecision(4)}${THIN}${letter}` : show(value);
  }

  const pen = document.createElement('canvas').getContext('2d');
  pen.font = '12px system-ui, sans-serif';
  const widthIn = (text) => pen.measureText(text).width;
  /** A text in a plot that takes no more than `room`; all of it is in its title. */
  function words(text, room, attributes) {
    if (widthIn(text) <= room) return svg('text', attributes, text);
    let length = text.length;
    while (length > 1 && widthIn(`${text.slice(0, length)}…`) > room) length -= 1;
    return svg('text', attributes, `${text.slice(0, length)}…`, svg('title', {}, text));
  }

  /** Axes around a plot. An axis has a title, and a range with `log`, or `words` to stand side by side. */
  function frame(width, height, xAxis, yAxis) {
    const top = 28, titled = 22;
    const scaled = (axis, span) => (axis.log ? logarithmic : linear)(axis.range, span);
    // Ticks of y depend on its height, and the left edge on the ticks.
    const measure = (bottom) => {
      const y = scaled(yAxis, [bottom, top]);
      return { y, left: Math.ceil(Math.max(...y.ticks.map((v) => widthIn(tick(v))))) + 14 };
    };
    let bottom = height - titled - 20;
    let { y, left } = measure(bottom);
    const right = 18;
    let lean = false, most = 0;
    if (xAxis.words) {
      const room = (width - left - right) / xAxis.words.length;
      lean = Math.max(...xAxis.words.map(widthIn)) > room - 6;
      if (lean) {
        // A leaning word ends at its mark, and begins within the picture.
        most = Math.min(130, (left + room / 2 - 6) / .85, Math.max(...xAxis.words.map(widthIn)));
        bottom = height - titled - Math.ceil(most * .53) - 14;
        ({ y, left } = measure(bottom));
      }
    }
    const edge = width - right;
    const x = xAxis.words ? undefined : scaled(xAxis, [left + 4, edge]);
    const room = xAxis.words ? (edge - left) / xAxis.words.length : 0;
    const at = xAxis.words ? (i) => left + room * (i + .5) : undefined;
    const nodes = y.ticks.map((v) => [svg('line', { class: 'grid', x1: left, x2: edge, y1: y(v), y2: y(v) }),
      svg('text', { class: 'dim', x: left - 6, y: y(v) + 4, 'text-anchor': 'end' }, tick(v))]);
    if (xAxis.words) {
      for (const [i, word] of xAxis.words.entries()) {
        nodes.push(lean
          ? words(word, most, { class: 'dim', transform: `translate(${at(i)}, ${bottom + 12}) rotate(-32)`, 'text-anchor': 'end' })
          : svg('text', { class: 'dim', x: at(i), y: bottom + 16, 'text-anchor': 'middle' }, word));
      }
    } else {
      let last = -Infinity;
      for (const v of x.ticks) {
        const half = widthIn(tick(v)) / 2;
        const middle = Math.min(x(v), width - half - 1);
        nodes.push(svg('line', { class: 'grid', x1: x(v), x2: x(v), y1: top, y2: bottom }));
        if (middle - half <= last + 6) continue;
        last = middle + half;
        nodes.push(svg('text', { class: 'dim', x: middle, y: bottom + 16, 'text-anchor': 'middle' }, tick(v)));
      }
    }
    nodes.push(words(yAxis.title, width - 8, { class: 'dim', x: 2, y: 13 }),
      words(xAxis.title, width - 8, { class: 'dim', x: width - 4, y: height - 6, 'text-anchor': 'end' }));
    return { nodes: nodes.flat(), x, y, at, room, left, right: edge, top, bottom };
  }

  const canvas = (width, height, label, ...children) =>
    svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label }, ...children);

  /** Points of a plot that lie on each other, together: each group has a place and its points. */
  function gather(points, near) {
    const groups = [];
    for (const point of points) {
      const group = groups.find((g) => Math.hypot(g.at[0] - point.at[0], g.at[1] - point.at[1]) < near);
      if (group) group.points.push(point);
      else groups.push({ at: point.at, points: [point] });
    }
    return groups;
  }

  /** Puts labels beside their marks where they lie on nothing: right, left, above or below. */
  function label(texts, area, taken = []) {
    const boxes = [...taken];
    const free = (box) => box.x >= area.left && box.x + box.w <= area.right && box.y >= area.top && box.y + box.h <= area.bottom
      && boxes.every((b) => box.x + box.w <= b.x || b.x + b.w <= box.x || box.y + box.h <= b.y || b.y + b.h <= box.y);
    return texts.map(({ at: [x, y], r, text }) => {
      const w = widthIn(text) + 2, h = 14;
      const tries = [[x + r + 3, y - h / 2], [x - r - 3 - w, y - h / 2], [x - w / 2, y - r - 2 - h], [x - w / 2, y + r + 2]];
      for (let far = 1; far < 5; far += 1) tries.push([x + r + 3, y - h / 2 - far * h], [x + r + 3, y - h / 2 + far * h], [x - r - 3 - w, y - h / 2 - far * h], [x - r - 3 - w, y - h / 2 + far * h]);
      const place = tries.map(([a, b]) => ({ x: a, y: b, w, h })).find(free);
      if (!place) return undefined;
      boxes.push(place);
      return svg('text', { x: place.x + 1, y: place.y + 11 }, text);
    }).filter(Boolean);
  }

  /** Lines over numbers; several series are told apart by colour and dashes. */
  function timeplot(width, title, unit, series, xTitle) {
    const height = 190;
    const all = series.flatMap((s) => s.points);
    const area = frame(width, height, { title: xTitle, range: [Math.min(...all.map((p) => p[0])), Math.max(1, ...all.map((p) => p[1]))] },
      { title: `${title}, ${unit}`, range: [0, Math.max(...all.map((p) => p[2])) || 1] });
    // A sample holds for all of its cycles.
    const path = (points) => points.flatMap(([from, to, v]) => [[area.x(from), area.y(v)], [area.x(to), area.y(v)]]).map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ');
    return canvas(width, height, `${title} over time`, area.nodes, series.map((s) =>
      svg('polyline', { points: path(s.points), fill: 'none', stroke: colour(s.run), 'stroke-width': 1.5, 'stroke-dasharray': dash(s.run), 'data-series': s.name, 'data-samples': s.points.length }, svg('title', {}, s.name))));
  }

  const METRIC = new Map(DATA.metrics.map((metric) => [metric.name, metric]));
  const named = (name) => { const m = METRIC.get(name); return m ? `${name} (${m.unit})` : name; };
