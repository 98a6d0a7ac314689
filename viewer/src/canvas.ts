// A canvas in the screen's own pixels, drawn in those of the page.

export class Surface {
  readonly canvas: HTMLCanvasElement;
  readonly context: CanvasRenderingContext2D;
  width = 0;
  height = 0;
  private ratio = 0;

  constructor(className: string) {
    this.canvas = document.createElement('canvas');
    this.canvas.className = className;
    const context = this.canvas.getContext('2d');
    if (!context) throw new Error('this browser draws no canvas');
    this.context = context;
  }

  resize(width: number, height: number): void {
    const ratio = devicePixelRatio || 1;
    if (this.width === width && this.height === height &&
        this.ratio === ratio) {
      return;
    }
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
  }

  clear(): void {
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.context.clearRect(0, 0, this.width, this.height);
  }
}

/** How many characters of about average width fit. */
export function fitting(width: number, fontSize: number): number {
  return Math.floor(width / (fontSize * 0.53));
}

/** Text with a rim of the background's colour, to be read on anything. */
export function haloText(
    context: CanvasRenderingContext2D, text: string, x: number, y: number,
    color: string, halo: string): void {
  context.lineJoin = 'round';
  context.lineWidth = 3;
  context.strokeStyle = halo;
  context.strokeText(text, x, y);
  context.fillStyle = color;
  context.fillText(text, x, y);
}
