
  // Paper shows what is folded.
  addEventListener('beforeprint', () => document.querySelectorAll('details').forEach((node) => { node.dataset.was = node.open; node.open = true; }));
  addEventListener('afterprint', () => document.querySelectorAll('details').forEach((node) => { node.open = node.dataset.was === 'true'; }));
  document.body.dataset.ready = 'true';

