// Checked access to parsed JSON: each value with the path that names it in an
// error.
import {DataError} from './data';

/** No text that is shown is longer: a name may be of any length in a trace. */
const kMaxText = 4000;

export class Reader {
  constructor(private readonly value: unknown, readonly path: string) {}

  private fail(wanted: string): never {
    throw new DataError(`${this.path || 'the data'} is not ${wanted}`);
  }

  private get record(): Record<string, unknown> {
    if (typeof this.value !== 'object' || this.value === null ||
        Array.isArray(this.value)) {
      this.fail('an object');
    }
    return this.value as Record<string, unknown>;
  }

  get absent(): boolean {
    return this.value === undefined || this.value === null;
  }

  at(key: string): Reader {
    const record = this.record;
    return new Reader(
        Object.hasOwn(record, key) ? record[key] : undefined,
        this.path ? `${this.path}.${key}` : key);
  }

  list(): unknown[] {
    if (this.value === undefined) return [];
    if (!Array.isArray(this.value)) this.fail('a list');
    return this.value;
  }

  each<T>(read: (item: Reader, index: number) => T): T[] {
    return this.list().map(
        (item, i) => read(new Reader(item, `${this.path}[${i}]`), i));
  }

  number(otherwise = 0): number {
    if (this.absent) return otherwise;
    if (typeof this.value !== 'number') this.fail('a number');
    return this.value;
  }

  numberOrNull(): number|null {
    return this.absent ? null : this.number();
  }

  flag(): boolean {
    return this.value === true;
  }

  flagOrNull(): boolean|null {
    return this.absent ? null : this.flag();
  }

  text(): string {
    if (this.absent) return '';
    if (typeof this.value !== 'string') this.fail('a string');
    return shorten(this.value);
  }

  texts(): string[] {
    return this.each((item) => item.text());
  }

  numbers(): number[] {
    const list = this.list();
    if (!list.every((item) => typeof item === 'number')) {
      this.fail('a list of numbers');
    }
    return list as number[];
  }

  /** A column of the object, `rows` long; all -1 where it is left out. */
  column(key: string, rows: number): Float64Array {
    const reader = this.at(key);
    if (reader.absent) return new Float64Array(rows).fill(-1);
    const list = reader.numbers();
    if (list.length !== rows) {
      throw new DataError(
          `${reader.path} has ${list.length} entries, not ${rows}`);
    }
    return Float64Array.from(list);
  }

  /** A column of numbers of something: -1 for what is not in [0, limit). */
  indices(key: string, rows: number, limit: number): Int32Array {
    const column = this.column(key, rows);
    const result = new Int32Array(rows);
    for (let i = 0; i < rows; i++) {
      const index = column[i]!;
      result[i] = Number.isInteger(index) && index >= 0 && index < limit ?
          index :
          -1;
    }
    return result;
  }

  keys(): string[] {
    return Object.keys(this.record);
  }

  rows(key: string): number {
    return this.absent ? 0 : this.at(key).list().length;
  }
}

function shorten(text: string): string {
  return text.length <= kMaxText ? text : text.slice(0, kMaxText) + '…';
}
