#include "memory/plan/residency/use_index.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/units.h"

namespace castor {

int64_t PayloadBlock(const ChunkInfo& chunk) {
  return RoundUp(chunk.payload_bytes, kBlockAlignment);
}

int64_t OptimizerBlock(const ChunkInfo& chunk) {
  return RoundUp(chunk.optimizer_bytes, kBlockAlignment);
}

int64_t SumBlock(const ChunkInfo& chunk) {
  return RoundUp(chunk.sum_bytes, kBlockAlignment);
}

int64_t HomeBlock(const ChunkInfo& chunk) {
  return RoundUp(chunk.home_bytes(), kBlockAlignment);
}

int64_t BankBlock(const ChunkInfo& chunk) {
  const int64_t gradients = chunk.sum_bytes > 0 ? 0 : chunk.home_bytes();
  return RoundUp(chunk.optimizer_bytes - chunk.sum_bytes + gradients,
                 kBlockAlignment);
}

bool IsPinned(const StepTrace& trace, const std::vector<Side>& side,
              int64_t chunk) {
  return !trace.training && side[chunk] == Side::kDevice;
}

bool RunsOnDevice(const OpRecord& op, const std::vector<Side>& side) {
  return op.kind == OpKind::kCompute ||
         side[op.chunks[0].chunk.value] == Side::kDevice;
}

bool RunsOnNetwork(const StepTrace& trace, const OpRecord& op) {
  const bool follows_parts = op.kind == OpKind::kReduce ||
                             (op.kind == OpKind::kUpdate && !trace.global_norm);
  return follows_parts &&
         trace.chunks[op.chunks[0].chunk.value].shard_bytes > 0;
}

bool MayBeSum(const StepTrace& trace, int64_t moment, int64_t chunk) {
  if (chunk >= static_cast<int64_t>(trace.chunks.size()) || chunk < 0 ||
      trace.chunks[chunk].sum_bytes == 0 || moment < 1 ||
      moment > static_cast<int64_t>(trace.ops.size())) {
    return false;
  }
  const OpRecord& before = trace.ops[moment - 1];
  return before.kind == OpKind::kReduce &&
         before.chunks[0].chunk.value == chunk;
}

std::vector<GradientBlock> PossibleGradientBlocks(
    const StepTrace& trace, const std::vector<Side>& side) {
  std::vector<GradientBlock> blocks;
  if (!trace.training) return blocks;
  const size_t chunks = trace.chunks.size();
  std::vector<int64_t> last_reduce(chunks, -1);
  for (size_t t = 0; t < trace.ops.size(); ++t) {
    if (trace.ops[t].kind != OpKind::kReduce) continue;
    last_reduce[trace.ops[t].chunks[0].chunk.value] = static_cast<int64_t>(t);
  }
  std::vector<int64_t> first_write(chunks, -1);
  std::vector<int64_t> last_block(chunks, -1);  // of each chunk, in `blocks`
  for (int64_t t = 0; t < static_cast<int64_t>(trace.ops.size()); ++t) {
    const OpRecord& op = trace.ops[t];
    if (op.kind == OpKind::kUpdate) continue;
    for (const ChunkUse& use : op.chunks) {
      const int64_t c = use.chunk.value;
      const bool on_device = side[c] == Side::kDevice;
      if (on_device && trace.chunks[c].shard_bytes == 0) continue;
      if (op.kind == OpKind::kCompute) {
        if (!use.writes || first_write[c] >= 0) continue;
        first_write[c] = t;
        if (last_block[c] >= 0) blocks[last_block[c]].next_write = t;
        last_block[c] = -1;
        continue;
      }
      if (first_write[c] >= 0 && t != last_reduce[c]) {
        last_block[c] = static_cast<int64_t>(blocks.size());
        blocks.push_back({.chunk = c,
                          .bytes = PayloadBlock(trace.chunks[c]),
                          .from = first_write[c],
                          .reduce = t,
                          .drop = on_device ? t + 1 : t,
                          .next_write = last_reduce[c],
                          .sent = !on_device});
      }
      first_write[c] = -1;
    }
  }
  return blocks;
}

std::vector<PossibleSum> PossibleDeviceSums(
    const StepTrace& trace, const std::vector<Side>& side,
    const std::vector<GradientBlock>& possible) {
  const size_t chunks = trace.chunks.size();
  std::vector<PossibleSum> of_chunk(chunks);
  std::vector<size_t> reduces(chunks, 0);
  for (size_t t = 0; t < trace.ops.size(); ++t) {
    if (trace.ops[t].kind != OpKind::kReduce) continue;
    const int64_t c = trace.ops[t].chunks[0].chunk.value;
    const int64_t moment = static_cast<int64_t>(t);
    DeviceSum& sum = of_chunk[c].sum;
    if (++reduces[c] == 1) sum.from = moment;
    sum.chunk = c;
    sum.reduce = moment;
    sum.drop = moment + 1;
    sum.bytes = SumBlock(trace.chunks[c]);
  }
  for (GradientBlock block : possible) {
    // The reduce reads it on the device.
    block.drop = std::max(block.drop, block.reduce + 1);
    block.sent = false;
    of_chunk[block.chunk].blocks.push_back(block);
  }
  std::vector<PossibleSum> sums;
  for (size_t c = 0; c < chunks; ++c) {
    if (!trace.training || side[c] == Side::kDevice ||
        trace.chunks[c].sum_bytes == 0 || reduces[c] < 2 ||
        of_chunk[c].blocks.size() + 1 != reduces[c]) {
      continue;
    }
    sums.push_back(std::move(of_chunk[c]));
  }
  std::sort(sums.begin(), sums.end(),
            [](const PossibleSum& a, const PossibleSum& b) {
              return a.sum.reduce < b.sum.reduce;
            });
  return sums;
}

UseIndex::UseIndex(const StepTrace& trace, const std::vector<Side>& side,
                   std::vector<GradientBlock> beside,
                   std::vector<DeviceSum> sums)
    : moments_(static_cast<int64_t>(trace.ops.size())),
      beside_(std::move(beside)),
      sums_(std::move(sums)),
      start_ns_(trace.ops.size() + 1) {
  const size_t chunks = trace.chunks.size();
  CountUses(trace);
  // A chunk's blocks are in the order of time: keep the next one of each chunk,
  // and link each block to the one after it.
  constexpr int64_t kNone = -1;
  std::vector<int64_t> next_block(chunks, kNone);
  std::vector<int64_t> block_after(beside_.size(), kNone);
  for (int64_t b = static_cast<int64_t>(beside_.size()); b-- > 0;) {
    block_after[b] = std::exchange(next_block[beside_[b].chunk], b);
  }
  std::vector<const DeviceSum*> sum_of(chunks, nullptr);
  for (const DeviceSum& sum : sums_) sum_of[sum.chunk] = &sum;
  std::vector<bool> pinned(chunks);
  for (size_t c = 0; c < chunks; ++c) {
    pinned[c] = IsPinned(trace, side, static_cast<int64_t>(c));
  }
  std::vector<std::vector<HostWork>> host_work(chunks);
  for (int64_t t = 0; t < moments_; ++t) {
    const OpRecord& op = trace.ops[t];
    const DeviceSum* const sum =
        op.kind == OpKind::kReduce ? sum_of[op.chunks[0].chunk.value] : nullptr;
    const bool on_device = RunsOnDevice(op, side) || sum != nullptr;
    const bool computes = on_device && !RunsOnNetwork(trace, op);
    start_ns_[t + 1] = start_ns_[t] + (computes ? op.duration_ns : 0);
    for (const ChunkUse& use : op.chunks) {
      const int64_t c = use.chunk.value;
      if (pinned[c]) continue;
      if (trace.chunks[c].holds_activations()) {
        AddUse(c, {.moment = t, .writes = use.writes, .spends = !use.writes});
        continue;
      }
      const int64_t block = next_block[c];
      const bool in_block = block != kNone && t >= beside_[block].from;
      if (sum != nullptr) {
        // Every reduce but the last one reads only a gradient block.
        if (t == sum->reduce) AddUse(c, {.moment = t, .spends = true});
      } else if (on_device) {
        const bool writes = use.writes || op.kind != OpKind::kCompute;
        AddUse(c, {.moment = t, .writes = writes && !in_block});
      } else {
        host_work[c].push_back({t, in_block});
      }
      if (in_block && t == beside_[block].reduce) {
        next_block[c] = block_after[block];
      }
    }
  }
  for (size_t c = 0; c < chunks; ++c) {
    FindGaps(trace.chunks[c], static_cast<int64_t>(c), host_work[c]);
  }
  SortGaps();
  SetClock();
}

void UseIndex::CountUses(const StepTrace& trace) {
  num_uses_.assign(trace.chunks.size(), 0);
  for (const OpRecord& op : trace.ops) {
    for (const ChunkUse& use : op.chunks) ++num_uses_[use.chunk.value];
  }
  int64_t all = 0;
  first_use_.reserve(trace.chunks.size());
  for (int64_t& uses : num_uses_) {
    first_use_.push_back(all);
    all += std::exchange(uses, 0);
  }
  uses_.resize(all);
  gaps_.reserve(all);
}

void UseIndex::FindGaps(const ChunkInfo& info, int64_t chunk,
                        const std::vector<HostWork>& work) {
  const absl::Span<Use> uses(uses_.data() + first_use_[chunk],
                             static_cast<size_t>(num_uses_[chunk]));
  const int64_t bytes = PayloadBlock(info);
  const int64_t home_bytes = HomeBlock(info);
  // The chunk is clean unless it was written after its home became valid. The
  // first of two passes finds the state before the first use.
  bool dirty = false;
  for (int lap = 0; lap < 2; ++lap) {
    auto next_work = work.begin();
    for (size_t i = 0; i < uses.size(); ++i) {
      dirty = (dirty || uses[i].writes) && !uses[i].spends;
      const int64_t from = uses[i].moment;
      const bool last = i + 1 == uses.size();
      const int64_t to = last ? uses[0].moment + moments_ : uses[i + 1].moment;
      Gap gap{chunk, bytes, home_bytes, from, to, from + 1, -1, dirty, false};
      if (uses[i].spends && info.holds_activations()) {
        gap.makes = true;
        gap.forced_by = from + 1;
        gap.ready = to;
      }
      const auto works = [&](int64_t moment, bool reads_block) {
        if (!reads_block && !gap.forced()) gap.forced_by = moment;
        gap.ready = moment + 1;
      };
      while (next_work != work.end() && next_work->moment <= from) ++next_work;
      for (; next_work != work.end() && next_work->moment < to; ++next_work) {
        works(next_work->moment, next_work->reads_block);
      }
      // The last gap reaches into the next step.
      for (auto at = work.begin();
           last && at != work.end() && at->moment < uses[0].moment; ++at) {
        works(at->moment + moments_, at->reads_block);
      }
      if (gap.forced()) dirty = false;
      if (lap == 1 && to > from + 1) {
        uses[i].gap = static_cast<int64_t>(gaps_.size());
        gaps_.push_back(gap);
      }
    }
  }
}

void UseIndex::SortGaps() {
  // Counting keeps gaps of one moment in their order.
  const auto sort = [&](const auto& key, std::vector<int64_t>* first) {
    for (const Gap& gap : gaps_) ++(*first)[key(gap) + 1];
    std::partial_sum(first->begin(), first->end(), first->begin());
    std::vector<int64_t> next = *first;
    std::vector<int64_t> sorted(gaps_.size());
    for (size_t g = 0; g < gaps_.size(); ++g) {
      sorted[next[key(gaps_[g])]++] = static_cast<int64_t>(g);
    }
    return sorted;
  };
  begin_of_.assign(moments_ + 2, 0);
  by_begin_ = sort([](const Gap& gap) { return gap.from + 1; }, &begin_of_);
  std::vector<int64_t> need_of(2 * moments_ + 2, 0);
  by_need_ = sort([](const Gap& gap) { return gap.to; }, &need_of);
}

void UseIndex::SetClock() {
  clock_ns_ = start_ns_[moments_] / std::max<int64_t>(1, moments_) + 1;
  by_clock_.reserve(moments_ + 2);
  int64_t moment = 0;
  for (int64_t time_ns = 0; time_ns < start_ns_[moments_] + clock_ns_;
       time_ns += clock_ns_) {
    while (moment < moments_ && start_ns_[moment + 1] <= time_ns) ++moment;
    by_clock_.push_back(moment);
  }
}

int64_t UseIndex::StartNs(int64_t moment) const {
  return moment <= moments_
             ? start_ns_[moment]
             : start_ns_[moments_] + start_ns_[moment - moments_];
}

int64_t UseIndex::MomentAt(int64_t time_ns) const {
  const int64_t period = start_ns_[moments_];
  const bool next = time_ns >= period;
  if (next) time_ns -= period;
  int64_t moment = moments_;
  if (time_ns < 0) {
    moment = 0;
  } else if (time_ns < period) {
    const int64_t tick = time_ns / clock_ns_;
    const auto first = start_ns_.begin() + by_clock_[tick];
    const auto last = start_ns_.begin() + by_clock_[tick + 1] + 1;
    moment = std::upper_bound(first, last, time_ns) - start_ns_.begin() - 1;
  }
  return moment + (next ? moments_ : 0);
}

}  // namespace castor
