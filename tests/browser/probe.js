// Runs after the page: writes down what a reader would find, as JSON in an element of its own.
(async () => {
  const rows = (table) => [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => ({ text: cell.textContent, value: cell.dataset.value ?? null })));
  const tables = (root) => [...root.querySelectorAll('table')].map((table) => ({
    caption: table.caption.textContent,
    columns: [...table.tHead.rows[0].cells].map((cell) => cell.textContent),
    rows: rows(table),
  }));
  const colour = (text) => text.match(/[\d.]+/g).slice(0, 3).map(Number);
  const luminance = (rgb) => rgb.map((c) => c / 255).map((c) => (c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)).reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const paper = luminance(colour(getComputedStyle(document.body).backgroundColor));
  const contrast = (node) => {
    const ink = luminance(colour(getComputedStyle(node).color));
    return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
  };
  const focusable = [...document.querySelectorAll('a[href], button, select, summary, [tabindex]')];
  const unreachable = focusable.filter((node) => {
    if (node.closest('details:not([open])') && node.tagName !== 'SUMMARY') return false;
    node.focus();
    return document.activeElement !== node || node.tabIndex > 0;
  }).map((node) => node.outerHTML.slice(0, 120));
  // What stands out of the screen, unless it scrolls in its own place.
  const outside = () => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const nodes = [...document.querySelectorAll('body *')].filter((node) => !node.closest('.scroll') && node.getBoundingClientRect().right > width);
    return [document.documentElement.scrollWidth, width, ...nodes.slice(-3).map((node) => node.outerHTML.slice(0, 160))];
  };
  // Texts of a plot that stand out of it or in each other, and marks that hide each other.
  const faults = (picture) => {
    const out = [];
    const box = picture.getBoundingClientRect();
    if (box.width === 0) return out;
    const texts = [...picture.querySelectorAll('text')].map((node) => [node, node.getBoundingClientRect()]);
    for (const [node, own] of texts) {
      if (own.left < box.left - 1 || own.right > box.right + 1 || own.top < box.top - 1 || own.bottom > box.bottom + 1) out.push(`clipped: ${node.textContent}`);
    }
    // What leans has a larger box than it covers.
    const upright = texts.filter(([node]) => !node.hasAttribute('transform'));
    for (const [i, [node, a]] of upright.entries()) {
      for (const [other, b] of upright.slice(i + 1)) {
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4) out.push(`on each other: ${node.textContent}, ${other.textContent}`);
      }
    }
    const circles = [...picture.querySelectorAll('circle:not([data-value])')].map((node) => ['cx', 'cy', 'r'].map((name) => Number(node.getAttribute(name))));
    for (const [i, [x, y, r]] of circles.entries()) {
      for (const [x2, y2, r2] of circles.slice(i + 1)) if (Math.hypot(x - x2, y - y2) < 2 && Math.abs(r - r2) < 1) out.push(`hidden: ${x} ${y}`);
    }
    return out;
  };
  const pictures = (root) => [...root.querySelectorAll('svg')];
  const sections = [...document.querySelectorAll('main > section')].map((node) => ({
    id: node.id,
    title: node.querySelector('h2, h3').textContent,
    height: node.getBoundingClientRect().height,
    pictures: [...node.querySelectorAll('svg')].map((picture) => ({
      label: picture.getAttribute('aria-label'),
      faults: faults(picture),
      marks: picture.querySelectorAll('circle, rect, polyline').length,
      broken: [...picture.querySelectorAll('*')].filter((mark) => [...mark.attributes].some((a) => /NaN|undefined|Infinity/.test(a.value))).length,
    })),
    bars: node.querySelectorAll('g[data-bar]').length,
    // By bar, what its parts sum to.
    slots: [...node.querySelectorAll('g[data-bar]')].map((bar) => [bar.dataset.bar, [...bar.querySelectorAll('rect')].reduce((sum, part) => sum + Number(part.dataset.value), 0)]),
    series: [...node.querySelectorAll('polyline[data-series]')].map((line) => [line.closest('figure').dataset.figure, line.dataset.series, Number(line.dataset.samples)]),
    findings: [...node.querySelectorAll('.findings > li')].map((item) => ({ kind: item.dataset.kind, share: item.dataset.share, text: item.textContent, links: [...item.querySelectorAll('a')].map((a) => [a.getAttribute('href'), document.querySelector(a.getAttribute('href')) !== null]) })),
    captions: [...node.querySelectorAll('figcaption')].map((words) => words.textContent),
    models: [...node.querySelectorAll('.model')].map((words) => words.textContent),
    verdicts: [...node.querySelectorAll('.verdict')].map((words) => words.textContent),
    tiles: Object.fromEntries([...node.querySelectorAll('[data-tile]')].map((tile) => [tile.dataset.tile, tile.querySelector('strong').dataset.value])),
    folded: [...node.querySelectorAll('details:not([open]) table')].map((table) => table.caption.textContent),
    // Tables whose columns do not fit beside each other.
    wide: [...node.querySelectorAll('.scroll')].filter((place) => place.scrollWidth > place.clientWidth + 1).map((place) => place.getAttribute('aria-label')),
    text: node.textContent.length,
    tables: tables(node),
  }));
  // Every choice of every control, one after the other.
  const choices = [];
  const selects = () => [...document.querySelectorAll('select')];
  for (let at = 0; at < selects().length; at += 1) {
    const options = [...selects()[at].options].map((option) => option.value);
    const before = selects()[at].value;
    for (const value of [...options, before]) {
      const select = selects()[at];
      if (!select || ![...select.options].some((option) => option.value === value)) continue;
      select.value = value;
      select.dispatchEvent(new Event('change'));
      const section = selects()[at].closest('section');
      choices.push({
        control: selects()[at].closest('label').firstChild.textContent, value,
        section: section.id,
        pictures: section.querySelectorAll('svg').length,
        controls: Object.fromEntries([...section.querySelectorAll('select')].map((list) => [list.closest('label').firstChild.textContent, list.value])),
        faults: pictures(section).flatMap(faults),
        shades: [...section.querySelectorAll('td[style*="background"]')].map((cell) => [Number(cell.dataset.value), cell.getAttribute('style')]),
        grades: section.querySelectorAll('.legend li').length,
        points: [...section.querySelectorAll('circle[data-points]')].map((mark) => Number(mark.dataset.points)),
        scale: [...section.querySelectorAll('svg text.dim')].map((node) => node.textContent),
        values: [...section.querySelectorAll('circle[data-value], rect[data-value]')].map((mark) => mark.dataset.value),
        broken: [...section.querySelectorAll('svg *')].filter((mark) => [...mark.attributes].some((a) => /NaN|undefined|Infinity/.test(a.value))).length,
        tables: tables(section),
        outside: outside(),
      });
    }
  }
  // What is saved of every plot.
  const figures = [...document.querySelectorAll('figure[data-figure]')].filter((figure) => figure.querySelector('svg'));
  for (const figure of figures) figure.querySelectorAll('.exports button').forEach((button) => button.click());
  // Pictures are decoded in the host's time, which the browser's virtual time does not wait for.
  for (let turn = 0; turn < 300 && window.saved.length < 3 * figures.length; turn += 1) {
    await new Promise((then) => setTimeout(then, 5));
    for (let i = 0; i < 1e6; i += 1) window.spun = i;
  }
  const saved = window.saved.map(({ name, part }) => (typeof part === 'string'
    ? { name, size: part.length, start: part.slice(0, 8), text: name.endsWith('.csv') ? part : null, variables: part.includes('var(--') }
    : { name, size: part.length, start: String.fromCharCode(...part.slice(1, 4)), text: null, variables: false }));
  const found = {
    figures: figures.map((figure) => figure.dataset.figure),
    saved,
    defaults: [...document.querySelectorAll('select')].map((list) => [list.closest('label').firstChild.textContent, list.value]),
    ready: document.body.dataset.ready ?? null,
    wrong: window.wrong,
    contents: [...document.querySelectorAll('nav a')].map((a) => [a.getAttribute('href'), document.querySelector(a.getAttribute('href')) !== null]),
    outside: outside(),
    dark: matchMedia('(prefers-color-scheme: dark)').matches,
    contrast: Math.min(...[document.body, ...document.querySelectorAll('p, a, .dim, caption, th, .bad, figcaption, .legend li, button, li')].map(contrast)),
    unreachable,
    sections,
    choices,
  };
  dispatchEvent(new Event('beforeprint'));
  found.folded = document.querySelectorAll('details:not([open])').length;
  dispatchEvent(new Event('afterprint'));
  const node = document.createElement('pre');
  node.id = 'probe';
  node.textContent = JSON.stringify(found);
  document.body.append(node);
})();
