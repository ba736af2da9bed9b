
  // Policy studies.

  const STUDY = [['speedup', 'speed-up over the post-dominator stack'], ['cycles', 'core cycles'], ['time_us', 'µs'], ['simd_efficiency', 'active lanes as a share of the warp size'],
    ['warp_instructions', 'warp instructions issued'], ['control_instructions', 'injected control instructions'], ['transactions', 'line transactions'],
    ['entries', 'maximum number of entries of the policy for any one warp']];
  /** Swatches of the grades of a scale around one. */
  function grades(most) {
    const steps = [];
    const top = Math.max(1, Math.floor(Math.log2(most)));
    const each = Math.ceil(top / 4);
    const last = Math.floor(top / each) * each;
    for (let e = -last; e <= last; e += each) steps.push(2 ** e);
    const text = (v) => (v < 1 ? `1/${1 / v} ×` : `${v} ×`);
    return el('ul', { class: 'legend' }, steps.map((v) => el('li', {}, el('i', { style: graded(v, most) || 'background: var(--paper)' }), text(v))));
  }
  /** The shade of a factor: equal factors are equal steps, up to the largest of the table. */
  const graded = (v, most) => {
    const part = Math.min(1, Math.abs(Math.log2(v)) / Math.max(1e-9, Math.log2(most)));
    return v === 1 || most === 1 ? undefined : `background: rgba(var(--${v < 1 ? 'heat' : 'cool'}), ${(.05 + .53 * part).toFixed(3)})`;
  };

  function study(data) {
    const workloads = [...new Set(data.rows.map((row) => row.workload))];
    const chips = [...new Set(data.rows.map((row) => row.chip).filter(Boolean))];
    const policies = [...new Set(data.rows.map((row) => row.policy))];
    const place = el('div', {});
    const factors = data.rows.map((row) => row.speedup).filter((v) => typeof v === 'number' && v > 0);
    const most = Math.max(1, ...factors.map((v) => Math.max(v, 1 / v)));
    const draw = (key) => {
      const words = STUDY.find(([name]) => name === key)[1];
      const find = (workload, policy) => data.rows.find((row) => row.workload === workload && row.policy === policy);
      const rows = workloads.map((workload) => {
        const own = policies.map((policy) => find(workload, policy));
        const values = own.map((row) => row?.[key]).filter((v) => typeof v === 'number');
        const [low, high] = [Math.min(...values), Math.max(...values)];
        return [workload.split('/').pop(), ...own.map((row) => {
          if (!row) return el('td', {}, '–');
          if (row.result !== 'pass') return el('td', { class: 'bad', title: row.result }, 'failed');
          const v = row[key];
          if (typeof v !== 'number') return el('td', {}, '–');
          // A speed-up is told by its distance from one, on either side; others by their place in the row.
          const style = key === 'speedup' ? graded(v, most) : heat(v - low, high - low);
          return cell(v, { style, title: `${workload}, ${row.policy}` });
        })];
      });
      if (key === 'speedup') {
        rows.push(['geometric mean', ...policies.map((policy) => {
          const values = data.rows.filter((row) => row.policy === policy && typeof row.speedup === 'number').map((row) => row.speedup);
          return el('td', { 'data-mean': policy }, el('strong', {}, show(mean(values))));
        })]);
      }
      place.replaceChildren(key === 'speedup' ? grades(most) : '', table(words, ['workload', ...policies], rows, { class: 'matrix' }));
    };
    draw('speedup');
    const failed = data.rows.filter((row) => row.result !== 'pass');
    return [
      el('p', {}, `${workloads.length} workloads under ${policies.length} reconvergence policies${chips.length > 0 ? ` on ${chips.join(', ')}` : ''}. ${failed.length === 0 ? 'All results are correct.' : ''} Speed-ups: blue is faster than the post-dominator stack, orange slower.`),
      el('div', { class: 'controls' }, choice('figure', STUDY.map(([name]) => name), 'speedup', draw)), place,
      failed.length > 0 && table('Runs that did not pass', ['workload', 'policy', 'result'], failed.map((row) => [row.workload, row.policy, el('td', { class: 'text wrap' }, row.result)])),
    ];
  }
  for (const [i, data] of DATA.studies.entries()) section(`study${i}`, `Reconvergence policies, ${data.name}`, 2, study(data));
