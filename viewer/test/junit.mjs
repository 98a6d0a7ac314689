// A reporter for node's test runner: JUnit's XML, one line per case, as
// tools/count_tests.awk reads it. (Node 18 has none of its own.)

const escape = (text) => String(text)
    .replace(/[\0-\x08\x0b\x0c\x0e-\x1f]/g, '?')
    .replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;')
    .replace(/"/g, '&quot;').replace(/\n/g, '&#10;');

export default async function* junit(events) {
  yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n' +
      '<testsuite name="viewer">\n';
  const parents = [];
  for await (const {type, data} of events) {
    if (type === 'test:start') parents[data.nesting] = data.name;
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    // Suites, and files that node counts as one, hold cases.
    if (data.details?.type === 'suite' || /\.mjs$/.test(data.name)) {
      // A file that ends badly before its cases is a failure of its own.
      const own = type === 'test:fail' &&
          data.details?.error?.failureType !== 'subtestsFailed';
      if (!own) continue;
    }
    const suite = parents.slice(0, data.nesting)
                      .filter((name) => !/\.mjs$/.test(name)).join('.');
    const attributes = `classname="${escape(suite)}" name="${
        escape(data.name)}" time="${
        ((data.details?.duration_ms ?? 0) / 1000).toFixed(3)}"`;
    if (type === 'test:fail') {
      const error = data.details?.error;
      const message = error?.cause?.message ?? error?.message ?? 'failed';
      yield `<testcase ${attributes}><failure message="${
          escape(message)}"/></testcase>\n`;
    } else if (data.skip !== undefined || data.todo !== undefined) {
      yield `<testcase ${attributes}><skipped/></testcase>\n`;
    } else {
      yield `<testcase ${attributes}/>\n`;
    }
  }
  yield '</testsuite>\n</testsuites>\n';
}
