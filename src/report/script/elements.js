  // Elements, tables, controls: what everything else is made of.

  const DATA = JSON.parse(document.getElementById('data').textContent);
  const SVG = 'http://www.w3.org/2000/svg';
  const main = document.getElementById('main');
  const contents = document.getElementById('contents');

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

  /** A button; its words say what it does. */
  const button = (words, label, then) => el('button', { type: 'button', 'aria-label': label, title: label, onclick: then }, words);

  /** Things of several runs side by side, each under its name; one alone has none. */
  const sides = (runs, show) => (runs.length === 1 ? show(runs[0], 0)
    : el('div', { class: 'sides' }, runs.map((run, i) => el('div', {}, el('h4', {}, run.name), show(run, i)))));

  const legend = (names, colours) => el('ul', { class: 'legend' }, names.map((name, i) =>
    el('li', {}, el('i', { style: `background: ${colours[i]}` }), name)));

  const COLOURS = Array.from({ length: 10 }, (_, i) => `var(--c${i})`);
  const colour = (i) => COLOURS[i % COLOURS.length];
  /** Dashes tell lines apart where there are more than colours, or none. */
  const DASHES = ['', '6 3', '2 3', '8 3 2 3'];
  const DASH_WORDS = ['solid', 'dashed', 'dotted', 'dashes and dots'];
  const dash = (i) => DASHES[Math.floor(i / COLOURS.length) % DASHES.length] || (i % 2 ? DASHES[1] : '');

  const widthOf = (place) => Math.max(280, Math.min(960, place.clientWidth || 700));

  /** Calls when an element's width may have changed, but not while the page is laid out. */
  function watch(node, then) {
    new ResizeObserver(() => requestAnimationFrame(then)).observe(node);
  }
