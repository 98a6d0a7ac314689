// What the tables show: each tab's columns, in order.
import type {Table} from './data';
import {
  formatBytes, formatCount, formatFlops, formatShare, formatTime,
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
  /** A name, whose end tells more than its beginning. */
  tail?: boolean;
  /** Only where there are several ranks. */
  ranks?: boolean;
  /** Only where the page is wide. */
  wide?: boolean;
}

const asText = (value: number|string) => String(value);
const asCount = (value: number|string) => formatCount(value as number);
// What is nothing should not look like something.
const asTime = (value: number|string) =>
    value === 0 ? '–' : formatTime(value as number);
const asBytes = (value: number|string) =>
    value === 0 ? '–' : formatBytes(value as number);
const asFlops = (value: number|string) =>
    value === 0 ? '–' : formatFlops(value as number);
const asRate = (value: number|string) =>
    value === 0 ? '–' : `${asFlops(value)}/s`;
const asLoss = (value: number|string) =>
    Number.isNaN(value) ? '' : (value as number).toFixed(4);
const asShare = (value: number|string) => formatShare(value as number, 1);

function column(
    key: string, title: string, width: number, format: Column['format'],
    help = '', text = false): Column {
  return {key, title, help, width, format, text};
}

const tail = (column: Column): Column => ({...column, tail: true});
const wide = (column: Column): Column => ({...column, wide: true});

/** How a table is sorted at first; others are as they come. */
export const kFirstSort: Partial<
    Record<Tab, {column: string, descending: boolean}>> = {
  modules: {column: 'total_ns', descending: true},
  operators: {column: 'total_ns', descending: true},
};

const kColumns: Record<Tab, Column[]> = {
  modules: [
    tail(column('module', 'module', 0, asText,
                'modules that are alike: * stands for any number', true)),
    column('kind', 'kind', 118, asText, '', true),
    wide(column('phase', 'phase', 78, asText, '', true)),
    wide(column('count', 'runs', 52, asCount,
                'how often all its operators ran; a click lists them')),
    column('total_ns', 'total', 70, asTime, 'time of all its runs'),
    column('share', 'share', 60, asShare,
           'of the time of the steps, or of the evaluations; what the CPU ' +
               'does comes beside the rest'),
    wide(column('flops', 'FLOPs', 84, asFlops,
                'floating-point operations of all its runs')),
    wide(column('flops_per_s', 'rate', 96, asRate,
                'floating-point operations a second, while it ran')),
    wide(column('wait_ns', 'waited', 66, asTime, 'waits before it')),
  ],
  operators: [
    wide(column('moment', '#', 44, asCount, 'moment: its place in the step')),
    tail(column('name', 'operator', 0, asText, '', true)),
    wide(column('phase', 'phase', 68, asText, '', true)),
    wide(column('count', 'runs', 48, asCount)),
    column('total_ns', 'total', 66, asTime, 'time of all its runs'),
    wide(column('mean_ns', 'mean', 66, asTime)),
    wide(column('max_ns', 'longest', 66, asTime)),
    wide(column('flops', 'FLOPs', 84, asFlops,
                'floating-point operations of one run')),
    wide(column('peak_bytes', 'device peak', 80, asBytes,
                'device bytes in use when it was issued, the most')),
    column('non_model_peak_bytes', 'non-model', 80, asBytes,
           'activations, temporaries and workspace at its peak'),
    wide(column('wait_ns', 'waited', 64, asTime, 'waits before it')),
  ],
  chunks: [
    column('chunk', 'chunk', 56, asCount),
    tail(column('parameters', 'parameters', 0, asText, '', true)),
    column('payload_bytes', 'payload', 80, asBytes),
    wide(column('optimizer_bytes', 'optimizer', 80, asBytes,
                'optimizer states')),
    wide(column('side', 'side', 60, asText, 'where its optimizer states live',
                true)),
    wide(column('fetches', 'fetches', 64, asCount)),
    column('fetched_bytes', 'fetched', 80, asBytes),
    wide(column('copied_back_bytes', 'copied back', 88, asBytes)),
    wide(column('resident_share', 'resident', 70, asShare,
                'share of the time that it was on the device')),
    wide(column('wait_ns', 'waited', 76, asTime, 'waits for it')),
  ],
  waits: [
    column('cause', 'cause', 0, asText, '', true),
    wide(column('remedy', 'what would have avoided it', 0, asText, '', true)),
    column('stream', 'stream', 92,
           (value, model) => model.laneName(value as number), 'who waited'),
    wide(column('count', 'waits', 50, asCount)),
    column('total_ns', 'total', 68, asTime),
    wide(column('max_ns', 'longest', 68, asTime)),
  ],
  steps: [
    column('step', 'step', 70,
           (value) => value === 0 ? 'eval' : formatCount(value as number)),
    column('duration_ns', 'time', 0, asTime),
    column('compute_ns', 'compute', 0, asTime),
    column('copy_ns', 'exposed copies', 0, asTime),
    wide(column('optimizer_ns', 'optimizer', 0, asTime)),
    {...column('network_ns', 'network', 0, asTime,
               'compute stood still while parts crossed the network'),
     ranks: true},
    {...column('late_ns', 'late ranks', 0, asTime,
               'compute stood still because another rank came late'),
     ranks: true},
    wide(column('idle_ns', 'idle', 0, asTime)),
    wide(column('h2d_bytes', 'to the device', 0, asBytes)),
    wide(column('d2h_bytes', 'from it', 0, asBytes)),
    wide({...column('sent_bytes', 'to ranks', 0, asBytes), ranks: true}),
    wide({...column('received_bytes', 'from ranks', 0, asBytes), ranks: true}),
    column('device_peak_bytes', 'device peak', 0, asBytes),
    wide(column('move_ns', 'moves', 0, asTime,
                'time of moves of blocks within the device\'s memory')),
    wide(column('loss', 'loss', 0, asLoss)),
  ],
  blocks: [
    column('block', 'block', 56, asCount),
    wide(tail(column('name', 'begins with', 0, asText, '', true))),
    column('choice', 'its activations', 140, asText,
           'kept on the device; kept, by way of the host; or made again in ' +
               'backward', true),
    column('device_bytes', 'on the device', 92, asBytes,
           'kept there from its forward to its backward, beyond its input'),
    wide(column('host_bytes', 'may leave', 80, asBytes,
                'may be on the host in between')),
    wide(column('spared_bytes', 'spared', 80, asBytes,
                'not kept, as it is made again')),
    wide(column('again_ns', 'once more', 80, asTime,
                'what making it again takes, or would take')),
    wide(column('copied_back_bytes', 'to the host', 88, asBytes)),
    wide(column('fetched_bytes', 'came back', 80, asBytes)),
    column('wait_ns', 'waited', 76, asTime,
           'compute stood still for what came back'),
  ],
};

export function columnsOf(tab: Tab, model: Model, narrow: boolean): Column[] {
  const several = (model.data.run?.worldSize ?? 1) > 1;
  return kColumns[tab].filter(
      (c) => (several || !c.ranks) && !(narrow && c.wide));
}

/** The column that rows are searched by. */
const kSearched: Partial<Record<Tab, string>> = {
  modules: 'pattern', operators: 'name', blocks: 'name',
};

export function isSearched(tab: Tab): boolean {
  return kSearched[tab] !== undefined;
}

/** The text that a row is searched by; '' where the tab is not searched. */
export function searchText(tab: Tab, table: Table, row: number): string {
  const column = table.columns[kSearched[tab] ?? ''] as string[]|undefined;
  return String(column?.[row] ?? '');
}
