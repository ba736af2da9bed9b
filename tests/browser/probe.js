// Runs after the page: writes down what a reader would find, as JSON in an element of its own.
(() => {
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
  const focusable = [...document.querySelectorAll('a[href], select, summary, [tabindex]')];
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
  const sections = [...document.querySelectorAll('main > section')].map((node) => ({
    id: node.id,
    title: node.querySelector('h2, h3').textContent,
    height: node.getBoundingClientRect().height,
    pictures: [...node.querySelectorAll('svg')].map((picture) => ({
      label: picture.getAttribute('aria-label'),
      marks: picture.querySelectorAll('circle, rect, polyline').length,
      broken: [...picture.querySelectorAll('*')].filter((mark) => [...mark.attributes].some((a) => /NaN|undefined|Infinity/.test(a.value))).length,
    })),
    bars: node.querySelectorAll('.bar').length,
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
      const section = document.querySelector('main > section:has(select)');
      choices.push({
        control: selects()[at].closest('label').firstChild.textContent, value,
        pictures: section.querySelectorAll('svg').length,
        values: [...section.querySelectorAll('circle[data-value], rect[data-value]')].map((mark) => mark.dataset.value),
        broken: [...section.querySelectorAll('svg *')].filter((mark) => [...mark.attributes].some((a) => /NaN|undefined|Infinity/.test(a.value))).length,
        tables: tables(section),
        outside: outside(),
      });
    }
  }
  const found = {
    ready: document.body.dataset.ready ?? null,
    wrong: window.wrong,
    contents: [...document.querySelectorAll('nav a')].map((a) => [a.getAttribute('href'), document.querySelector(a.getAttribute('href')) !== null]),
    outside: outside(),
    dark: matchMedia('(prefers-color-scheme: dark)').matches,
    contrast: Math.min(...[document.body, ...document.querySelectorAll('p, a, .dim, caption, th, .bad, figcaption, .legend li')].map(contrast)),
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
