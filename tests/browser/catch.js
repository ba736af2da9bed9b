// Runs before anything else on the page: keeps what goes wrong, and what is saved.
window.wrong = [];
addEventListener('error', (event) => window.wrong.push(String(event.message)));
addEventListener('securitypolicyviolation', (event) => window.wrong.push(`blocked: ${event.blockedURI}`));
for (const kind of ['error', 'warn']) {
  console[kind] = (...words) => window.wrong.push(words.join(' '));
}
window.saved = [];
{
  // Parts are kept as they are: blobs can be read only later, and the browser's virtual time does not wait.
  const blobs = new Map(), parts = new WeakMap();
  const Plain = Blob;
  window.Blob = class extends Plain {
    constructor(list, options) { super(list, options); parts.set(this, list[0]); }
  };
  const create = URL.createObjectURL.bind(URL);
  URL.createObjectURL = (blob) => { const url = create(blob); blobs.set(url, blob); return url; };
  HTMLAnchorElement.prototype.click = function click() { window.saved.push({ name: this.download, part: parts.get(blobs.get(this.href)) }); };
}
