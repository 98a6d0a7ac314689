// The one time axis of all pictures: the range of time that is shown, within
// the range that there is.

export interface Range {
  start: number;
  end: number;
}

/** Nobody needs to see less at once, in ns. */
export const kLeastSpan = 10;

export class Axis {
  start: number;
  end: number;

  /** `home` is what is shown at first. */
  constructor(readonly extent: Range, readonly home: Range = extent) {
    this.start = extent.start;
    this.end = extent.end;
    this.goHome();
  }

  /** Whether this range is what is shown, and no more of it can be. */
  shows({start, end}: Range): boolean {
    return this.start === start && this.end === end;
  }

  goHome(): void {
    this.set(this.home.start, this.home.end);
  }

  get span(): number {
    return this.end - this.start;
  }

  /** The pixel of a time, where 0 is the start and `width` the end. */
  pixel(time: number, width: number): number {
    return (time - this.start) / this.span * width;
  }

  time(pixel: number, width: number): number {
    return this.start + pixel / width * this.span;
  }

  /** Shows [start, end), moved and shortened to lie within the extent. */
  set(start: number, end: number): void {
    if (!Number.isFinite(start) || !Number.isFinite(end)) return;
    const whole = this.extent.end - this.extent.start;
    const span =
        Math.min(whole, Math.max(Math.min(kLeastSpan, whole), end - start));
    // What is too short grows about its middle.
    const from = end - start < span ? (start + end - span) / 2 : start;
    this.start = Math.min(
        Math.max(from, this.extent.start), this.extent.end - span);
    this.end = this.start + span;
  }

  /** Makes the span `factor` times as long; `about` stays where it is. */
  zoom(factor: number, about = (this.start + this.end) / 2): void {
    const whole = this.extent.end - this.extent.start;
    const span = Math.min(
        whole, Math.max(Math.min(kLeastSpan, whole), this.span * factor));
    const from = about - (about - this.start) * span / this.span;
    this.set(from, from + span);
  }

  /** Moves by a share of what is shown. */
  pan(share: number): void {
    const by = this.span * share;
    this.set(this.start + by, this.end + by);
  }

  /** Moves, and if it must zooms out, until a range is in sight. */
  reveal(start: number, end: number): void {
    if (end - start > this.span) {
      const margin = (end - start) * 0.15;
      this.set(start - margin, end + margin);
    } else if (start < this.start || end > this.end) {
      const middle = (start + end) / 2;
      this.set(middle - this.span / 2, middle + this.span / 2);
    }
  }

  /** Shows a range with some room on either side. */
  focus(start: number, end: number): void {
    const margin = Math.max((end - start) * 0.3, kLeastSpan / 2);
    this.set(start - margin, end + margin);
  }

  fit(): void {
    this.set(this.extent.start, this.extent.end);
  }
}
