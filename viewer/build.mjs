// Bundles one page: TypeScript and style sheets in, one HTML file out that
// needs nothing else, neither files nor a network.
//
//   node build.mjs ENTRY.ts OUT.html [OUT.cc FUNCTION]
//
// With OUT.cc, the page also as C++ source: absl::string_view FUNCTION(). The
// title is the entry's first line, "// Title: ...". How data gets into a page:
// page.h.
import {createHash} from 'node:crypto';
import {readFileSync, writeFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';

/** The bundler, or a line that says how to get it. */
async function loadBundler() {
  try {
    return await import('esbuild');
  } catch (error) {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
    const folder = fileURLToPath(new URL('.', import.meta.url));
    console.error(
        `the packages of ${folder}package-lock.json are not installed ` +
        `(no esbuild in node_modules); run tools/setup.sh`);
    process.exit(1);
  }
}

/** What a policy names an inline script or style by. */
function hashOf(text) {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/** The page, as a string. */
export async function buildPage(entry, {minify = true} = {}) {
  const esbuild = await loadBundler();
  const title = /^\/\/ Title: (.*)$/m.exec(readFileSync(entry, 'utf8'))?.[1];
  if (!title) throw new Error(`${entry} has no line "// Title: ..."`);
  const result = await esbuild.build({
    entryPoints: [entry],
    bundle: true,
    minify,
    write: false,
    outdir: 'page',
    format: 'iife',
    target: 'es2022',
    charset: 'utf8',
    legalComments: 'inline',
    logLevel: 'warning',
  });
  const output = (ending) => result.outputFiles.find(
      (file) => file.path.endsWith(ending))?.text.trim() ?? '';
  const script = output('.js');
  const style = output('.css');
  if (/<\/(script|style)|<!--/i.test(script + style)) {
    throw new Error(`${entry}: the bundle would end its own element`);
  }
  // Nothing is loaded but view data from the page's own server, and no script
  // runs but the one built here, whatever a trace's names contain.
  const policy = [
    `default-src 'none'`, `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`, `connect-src 'self'`, `img-src data:`,
    `base-uri 'none'`, `form-action 'none'`,
  ].join('; ');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>${title}</title>
<style>${style}</style>
</head>
<body>
<script type="application/json" id="castor-data"></script>
<script>${script}</script>
</body>
</html>
`;
}

/** C++ source of a function that returns `text`. */
function asCpp(text, name) {
  const bytes = Buffer.from(text, 'utf8');
  const lines = [];
  // Octal escapes have three digits at most, so that a digit after one is safe.
  const escape = (byte) => {
    if (byte === 10) return '\\n';
    const char = String.fromCharCode(byte);
    if (char === '\\' || char === '"' || char === '?') return `\\${char}`;
    if (byte < 32 || byte > 126) {
      return '\\' + byte.toString(8).padStart(3, '0');
    }
    return char;
  };
  for (let i = 0; i < bytes.length; i += 64) {
    lines.push(`    "${[...bytes.subarray(i, i + 64)].map(escape).join('')}"`);
  }
  return `// Made by viewer/build.mjs.
#include "viewer/page.h"

namespace castor {

absl::string_view ${name}() {
  static constexpr char kPage[] =
${lines.join('\n')};
  return absl::string_view(kPage, ${bytes.length});
}

}  // namespace castor
`;
}

if (process.argv[1] && import.meta.url.endsWith('/build.mjs') &&
    /build\.mjs$/.test(process.argv[1])) {
  const [entry, html, cc, name] = process.argv.slice(2);
  if (!entry || !html || (cc && !name)) {
    console.error('usage: node build.mjs ENTRY.ts OUT.html [OUT.cc FUNCTION]');
    process.exit(2);
  }
  const page = await buildPage(entry);
  writeFileSync(html, page);
  if (cc) writeFileSync(cc, asCpp(page, name));
}
