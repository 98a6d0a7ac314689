// The order of a table's rows.
import type {Table} from './data';

/** More rows are ordered by plain characters: words would take seconds. */
const kMostWords = 50_000;

/**
 * Row numbers by a column: numbers by size, text by its words. Equal rows stay
 * in their order, and what is no number comes last either way.
 */
export function sortRows(
    table: Table, column: string|null, descending: boolean,
    keep: (row: number) => boolean = () => true): Int32Array {
  const rows: number[] = [];
  for (let i = 0; i < table.rows; i++) {
    if (keep(i)) rows.push(i);
  }
  const values = column === null ? undefined : table.columns[column];
  if (values) {
    const sign = descending ? -1 : 1;
    if (typeof values[0] === 'string') {
      const texts = values as string[];
      const compare = rows.length <= kMostWords ?
          new Intl.Collator('en', {numeric: true}).compare :
          (x: string, y: string) => x < y ? -1 : x > y ? 1 : 0;
      rows.sort((a, b) => sign * compare(texts[a]!, texts[b]!) || a - b);
    } else {
      const numbers = values as ArrayLike<number>;
      rows.sort((a, b) => {
        const x = numbers[a]!;
        const y = numbers[b]!;
        if (Number.isNaN(x) || Number.isNaN(y)) {
          return (Number.isNaN(x) ? 1 : 0) - (Number.isNaN(y) ? 1 : 0) || a - b;
        }
        return sign * (x - y) || a - b;
      });
    }
  }
  return Int32Array.from(rows);
}
