
  // Plots with buttons that save them: as they are drawn (SVG, PNG), and their numbers (CSV).

  function save(name, blob) {
    const link = el('a', { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const KEPT = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'opacity', 'font-size', 'font-family', 'font-weight', 'text-anchor'];
  /** A picture that stands alone: the colours of the page become its own. */
  function alone(picture) {
    const copy = picture.cloneNode(true);
    const own = [picture, ...picture.querySelectorAll('*')], theirs = [copy, ...copy.querySelectorAll('*')];
    for (const [i, node] of own.entries()) {
      const style = getComputedStyle(node);
      for (const name of KEPT) if (style.getPropertyValue(name)) theirs[i].setAttribute(name, style.getPropertyValue(name));
      for (const name of ['class', 'style', 'tabindex']) theirs[i].removeAttribute(name);
    }
    copy.setAttribute('xmlns', SVG);
    const paper = getComputedStyle(document.body).backgroundColor;
    copy.prepend(svg('rect', { width: '100%', height: '100%', fill: paper }));
    return new XMLSerializer().serializeToString(copy);
  }

  function savePng(name, picture) {
    const { width, height } = picture.viewBox.baseVal;
    const image = new Image();
    image.onload = () => {
      const sheet = el('canvas', { width: 2 * width, height: 2 * height });
      sheet.getContext('2d').drawImage(image, 0, 0, 2 * width, 2 * height);
      const bytes = Uint8Array.from(atob(sheet.toDataURL('image/png').split(',')[1]), (letter) => letter.charCodeAt(0));
      save(`${name}.png`, new Blob([bytes], { type: 'image/png' }));
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(alone(picture))}`;
  }

  const csvField = (value) => {
    const text = value === undefined || value === null ? '' : String(value);
    return /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  const csv = (rows) => rows.map((row) => `${row.map(csvField).join(',')}\n`).join('');

  /** Buttons that save what `place` shows; `rows` gives its numbers, headings first. */
  function exportsOf(name, place, rows) {
    const file = name.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '') || 'plot';
    const picture = () => place.querySelector('svg');
    return el('div', { class: 'exports' },
      button('SVG', `Save “${name}” as SVG`, () => save(`${file}.svg`, new Blob([alone(picture())], { type: 'image/svg+xml' }))),
      button('PNG', `Save “${name}” as PNG`, () => savePng(file, picture())),
      button('CSV', `Save the numbers of “${name}” as CSV`, () => save(`${file}.csv`, new Blob([csv(rows())], { type: 'text/csv' }))));
  }

  /** A plot that is drawn anew when its place changes its width. */
  function figure(name, words, draw, rows) {
    const place = el('div', {});
    let width = 0;
    const again = () => {
      const now = widthOf(place);
      if (now === width) return;
      width = now;
      place.replaceChildren(draw(width));
    };
    // Paper is drawn before anything was laid out.
    again();
    watch(place, again);
    return el('figure', { 'data-figure': name }, place, el('figcaption', {}, words), exportsOf(name, place, rows));
  }
