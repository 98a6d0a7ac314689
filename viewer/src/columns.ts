// What the tables show: each tab's columns, in order.
import type {Table} from './data';
import {
  formatBytes, formatCount, formatShare, formatTime,
} from './format';
import type {Tab} from './hash';
import type {Model} from './model';

export interface Column {
  key: string;
  title: string;
  /** Longer than the title. */
  help: string;
  /** In pixels; 0: what is left. */
  width: number;
  format: (value: number|string, model: Model) => string;
  text?: boolean;
  /** Only where there are several ranks. */
  ranks?: boolean;
}

const asText = (value: number|string) => String(value);
const asCount = (value: number|string) => formatCount(value as number);
// What is nothing should not look like something.
const asTime = (value: number|string) =>
    value === 0 ? '–' : formatTime(value as number);
const asBytes = (value: number|string) =>
    value === 0 ? '–' : formatBytes(value as number);
const asShare = (value: number|string) => formatShare(value as number, 1);

function column(
    key: string, title: string, width: number, format: Column['format'],
    help = '', text = false): Column {
  return {key, title, help, width, format, text};
}

const kColumns: Record<Tab, Column[]> = {
  operators: [
    column('moment', '#', 50, asCount, 'moment: its place in the step'),
    column('name', 'operator', 0, asText, '', true),
    column('phase', 'phase', 72, asText, '', true),
    column('count', 'runs', 56, asCount),
    column('total_ns', 'total', 76, asTime, 'time of all its runs'),
    column('mean_ns', 'mean', 76, asTime),
    column('max_ns', 'longest', 76, asTime),
    column('peak_bytes', 'device peak', 84, asBytes,
           'device bytes in use when it was issued, the most'),
    column('non_model_peak_bytes', 'non-model', 84, asBytes,
           'activations, temporaries and workspace at its peak'),
    column('wait_ns', 'waited', 76, asTime, 'waits before it'),
  ],
  chunks: [
    column('chunk', 'chunk', 56, asCount),
    column('parameters', 'parameters', 0, asText, '', true),
    column('payload_bytes', 'payload', 80, asBytes),
    column('optimizer_bytes', 'optimizer', 80, asBytes, 'optimizer states'),
    column('side', 'side', 60, asText, 'where its optimizer states live', true),
    column('fetches', 'fetches', 64, asCount),
    column('fetched_bytes', 'fetched', 80, asBytes),
    column('copied_back_bytes', 'copied back', 88, asBytes),
    column('resident_share', 'resident', 70, asShare,
           'share of the time that it was on the device'),
    column('wait_ns', 'waited', 76, asTime, 'waits for it'),
  ],
  waits: [
    column('cause', 'cause', 0, asText, '', true),
    column('remedy', 'what would have avoided it', 0, asText, '', true),
    column('stream', 'stream', 92,
           (value, model) => model.laneName(value as number), 'who waited'),
    column('count', 'waits', 50, asCount),
    column('total_ns', 'total', 68, asTime),
    column('max_ns', 'longest', 68, asTime),
  ],
  steps: [
    column('step', 'step', 70,
           (value) => value === 0 ? 'eval' : formatCount(value as number)),
    column('duration_ns', 'time', 0, asTime),
    column('compute_ns', 'compute', 0, asTime),
    column('copy_ns', 'exposed copies', 0, asTime),
    column('optimizer_ns', 'optimizer', 0, asTime),
    {...column('network_ns', 'network', 0, asTime,
               'compute stood still while parts crossed the network'),
     ranks: true},
    {...column('late_ns', 'late ranks', 0, asTime,
               'compute stood still because another rank came late'),
     ranks: true},
    column('idle_ns', 'idle', 0, asTime),
    column('h2d_bytes', 'to the device', 0, asBytes),
    column('d2h_bytes', 'from it', 0, asBytes),
    {...column('sent_bytes', 'to ranks', 0, asBytes), ranks: true},
    {...column('received_bytes', 'from ranks', 0, asBytes), ranks: true},
    column('device_peak_bytes', 'device peak', 0, asBytes),
    column('move_ns', 'moves', 0, asTime,
           'time of moves of blocks within the device\'s memory'),
    column('loss', 'loss', 0,
           (value) => Number.isNaN(value) ? '' : (value as number).toFixed(4)),
  ],
  blocks: [
    column('block', 'block', 56, asCount),
    column('name', 'begins with', 0, asText, '', true),
    column('choice', 'its activations', 140, asText,
           'kept on the device; kept, by way of the host; or made again in ' +
               'backward', true),
    column('device_bytes', 'on the device', 92, asBytes,
           'kept there from its forward to its backward, beyond its input'),
    column('host_bytes', 'may leave', 80, asBytes,
           'may be on the host in between'),
    column('spared_bytes', 'spared', 80, asBytes,
           'not kept, as it is made again'),
    column('again_ns', 'once more', 80, asTime,
           'what making it again takes, or would take'),
    column('copied_back_bytes', 'to the host', 88, asBytes),
    column('fetched_bytes', 'came back', 80, asBytes),
    column('wait_ns', 'waited', 76, asTime,
           'compute stood still for what came back'),
  ],
};

export function columnsOf(tab: Tab, model: Model): Column[] {
  const several = (model.data.run?.worldSize ?? 1) > 1;
  return kColumns[tab].filter((c) => several || !c.ranks);
}

/** The text that a row is searched by; '' where the tab is not searched. */
export function searchText(tab: Tab, table: Table, row: number): string {
  const key = tab === 'operators' || tab === 'blocks' ? 'name' : '';
  return key ? String((table.columns[key] as string[]|undefined)?.[row] ?? '') :
               '';
}
