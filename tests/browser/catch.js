// Runs before anything else on the page: keeps what goes wrong.
window.wrong = [];
addEventListener('error', (event) => window.wrong.push(String(event.message)));
addEventListener('securitypolicyviolation', (event) => window.wrong.push(`blocked: ${event.blockedURI}`));
for (const kind of ['error', 'warn']) {
  console[kind] = (...words) => window.wrong.push(words.join(' '));
}
