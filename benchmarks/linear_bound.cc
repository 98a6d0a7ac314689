#include "benchmarks/linear_bound.h"

#include <algorithm>

#include "absl/types/span.h"
#include "benchmarks/linear_builder.h"
#include "benchmarks/linear_units.h"

namespace castor {

bool LinearBound::Uses(int64_t moment, int64_t chunk) const {
  const std::vector<OpRecord>& ops = request_.trace->ops;
  const std::vector<ChunkUse>& uses = ops[moment % ops.size()].chunks;
  return std::any_of(uses.begin(), uses.end(), [&](const ChunkUse& use) {
    return use.chunk.value == chunk;
  });
}

bool LinearBound::LacksRoom(int64_t moment, int64_t chunk) const {
  const StepTrace& trace = *request_.trace;
  const size_t t = moment % trace.ops.size();
  return trace.ops[t].kind == OpKind::kCompute &&
         room_mib_[t] < Mib(PayloadBlock(trace.chunks[chunk])) &&
         !Uses(moment, chunk);
}

int64_t LinearBound::LastWithoutRoom(int64_t chunk, int64_t from,
                                     int64_t to) const {
  for (int64_t t = to - 1; t > from; --t) {
    if (LacksRoom(t, chunk)) return t;
  }
  return -1;
}

void LinearBound::Builder::Build() {
  AddSum();
  if (counts_mib_) AddSum(), AddSum();
  AddSides();
  AddDeviceBlocks();
  AddHostGaps();
  AddDeviceGaps();
  AddOperators();
  LeaveOutWhatIsTooLarge();
  AddRoom();
  if (counts_mib_) {
    AddMoved();
    return;
  }
  AddWork(h2d_);
  AddWork(d2h_);
  AddWork(compute_);
  AddWork(host_);
  AddWork(network_);
}

void LinearBound::Builder::Hold(int64_t variable, int64_t bytes, int64_t from,
                                int64_t to) {
  if (from >= to || variable < 0) return;
  holds_.push_back({variable, Mib(bytes), from, to});
  if (from >= moments_) from -= moments_, to -= moments_;
  change_[from].push_back({variable, Mib(bytes)});
  change_[std::min(to, moments_)].push_back({variable, -Mib(bytes)});
  if (to <= moments_) return;
  change_[0].push_back({variable, Mib(bytes)});
  change_[to - moments_].push_back({variable, -Mib(bytes)});
}

void LinearBound::Builder::AddSides() {
  std::vector<Side> host(chunks_, Side::kHost);
  const std::vector<GradientBlock> possible =
      PossibleGradientBlocks(trace_, host);
  bound_.on_device_.assign(chunks_, -1);
  bound_.summed_.assign(chunks_, -1);
  for (int64_t c = 0; c < chunks_; ++c) {
    if (chunk(c).optimizer_bytes == 0) continue;
    bound_.on_device_[c] = AddVariable();
    Hold(side(c), OptimizerBlock(chunk(c)), 0, moments_);
  }
  for (const PossibleSum& one : PossibleDeviceSums(trace_, host, possible)) {
    const int64_t c = one.sum.chunk;
    bound_.summed_[c] = AddVariable();
    program_.rows.push_back({{{side(c), 1.0}, {sum(c), 1.0}}, 1});
    Hold(sum(c), SumBlock(chunk(c)), one.sum.from, one.sum.reduce + 1);
    for (const GradientBlock& block : one.blocks) {
      Hold(sum(c), block.bytes, block.from, block.reduce + 1);
    }
    Work(d2h_, sum(c), CopyBackWork(chunk(c).sum_bytes));
  }
  for (const GradientBlock& block : possible) {
    const int64_t c = block.chunk;
    const int64_t variable = AddVariable();
    bound_.blocks_.push_back({c, Side::kHost, block.from, variable});
    Row row = {{{variable, 1.0}, {side(c), 1.0}}, 1};
    if (sum(c) >= 0) row.terms.push_back({sum(c), 1.0});
    program_.rows.push_back(row);
    Hold(variable, block.bytes, block.from, block.reduce);
    block_of_[{c, block.reduce}] = variable;
  }
  possible_ = possible;
}

void LinearBound::Builder::AddDeviceBlocks() {
  if (!sharded()) return;
  for (const GradientBlock& block :
       PossibleGradientBlocks(trace_, DeviceSides())) {
    const int64_t c = block.chunk;
    if (side(c) < 0) continue;
    const int64_t variable = AddVariable();
    bound_.blocks_.push_back({c, Side::kDevice, block.from, variable});
    program_.rows.push_back({{{variable, 1.0}, {side(c), -1.0}}, 0});
    Hold(variable, block.bytes, block.from, block.reduce + 1);
    Work(network_, variable, -ExchangeMs(c));
  }
}

int64_t LinearBound::Builder::AddStay(const Gap& gap, Side on) {
  const int64_t variable = AddVariable();
  bound_.stays_.push_back({gap.chunk, on, gap.from, gap.to, variable});
  Hold(variable, gap.bytes, gap.from + 1, gap.to);
  return variable;
}

void LinearBound::Builder::AddHostGaps() {
  const UseIndex index(trace_, std::vector<Side>(chunks_, Side::kHost),
                       possible_);
  std::vector<std::vector<int64_t>> reduces(chunks_);
  for (int64_t t = 0; t < moments_; ++t) {
    const OpRecord& op = trace_.ops[t];
    if (op.kind != OpKind::kReduce) continue;
    reduces[op.chunks[0].chunk.value].push_back(t);
  }
  std::vector<int64_t> stay_in(index.gaps().size(), -1);
  for (size_t g = 0; g < index.gaps().size(); ++g) {
    const Gap& gap = index.gaps()[g];
    if (gap.makes) continue;
    const int64_t c = gap.chunk;
    OnHost(h2d_, c, FetchWork(c), /*and_sum=*/false);
    // Parameters are gathered, gradients that come back half written are not.
    const bool gathers = !gap.dirty || gap.forced();
    if (gathers) OnHost(network_, c, ExchangeMs(c), /*and_sum=*/false);
    if (gap.forced()) continue;
    const int64_t stay = AddStay(gap, Side::kHost);
    stay_in[g] = stay;
    Work(h2d_, stay, -FetchWork(c));
    if (gathers) Work(network_, stay, -ExchangeMs(c));
    Row row = {{{stay, 1.0}}, 1};
    if (side(c) >= 0) row.terms.push_back({side(c), 1.0});
    program_.rows.push_back(row);
    // Over a reduce it stays where the gradients have a block.
    for (const int64_t reduce : reduces[c]) {
      for (const int64_t t : {reduce, reduce + moments_}) {
        if (t <= gap.from || t >= gap.to) continue;
        Row over = {{{stay, 1.0}, {block_of_.at({c, reduce}), -1.0}}, 0};
        if (sum(c) >= 0) over.terms.push_back({sum(c), -1.0});
        program_.rows.push_back(over);
      }
    }
  }
  if (sharded()) return;
  for (int64_t c = 0; c < chunks_; ++c) {
    AddOtherCopiesBack(index, c, reduces[c], stay_in);
  }
}

void LinearBound::Builder::AddOtherCopiesBack(
    const UseIndex& index, int64_t c, const std::vector<int64_t>& reduces,
    const std::vector<int64_t>& stay_in) {
  const absl::Span<const Use> uses = index.uses(c);
  bool written_later = false;  // before the same reduce
  auto reduce = reduces.rbegin();
  for (auto use = uses.rbegin(); use != uses.rend(); ++use) {
    while (reduce != reduces.rend() && *reduce > use->moment) {
      written_later = false;
      ++reduce;
    }
    if (!use->writes) continue;
    const int64_t stay = use->gap < 0 ? -1 : stay_in[use->gap];
    if ((written_later || chunk(c).holds_activations()) && stay >= 0) {
      const double work = CopyBackWork(chunk(c).payload_bytes);
      OnHost(d2h_, c, work, /*and_sum=*/false);
      Work(d2h_, stay, -work);
    }
    written_later = true;
  }
}

std::vector<Side> LinearBound::Builder::DeviceSides() const {
  std::vector<Side> device(chunks_, Side::kHost);
  for (int64_t c = 0; c < chunks_; ++c) {
    if (side(c) >= 0) device[c] = Side::kDevice;
  }
  return device;
}

void LinearBound::Builder::AddDeviceGaps() {
  const UseIndex index(trace_, DeviceSides());
  for (int64_t c = 0; c < chunks_; ++c) {
    if (side(c) < 0) continue;
    // A payload that was written is copied back once until the next write;
    // after the last write that is the first one of the next step.
    std::vector<int64_t> stays, before_first_write;
    bool wrote = false;
    for (const Use& use : index.uses(c)) {
      if (use.writes) {
        if (wrote) {
          AddCopyBack(c, std::move(stays));
        } else {
          before_first_write = std::move(stays);
        }
        stays.clear();
        wrote = true;
      }
      if (use.gap < 0) continue;
      const Gap& gap = index.gaps()[use.gap];
      const int64_t stay = AddStay(gap, Side::kDevice);
      program_.rows.push_back({{{stay, 1.0}, {side(c), -1.0}}, 0});
      // On several ranks what was reduced is worth nothing until the update.
      if (!sharded()) {
        Work(h2d_, side(c), FetchWork(c));
        Work(h2d_, stay, -FetchWork(c));
        if (gap.dirty) stays.push_back(stay);
      }
    }
    stays.insert(stays.end(), before_first_write.begin(),
                 before_first_write.end());
    AddCopyBack(c, std::move(stays));
  }
}

void LinearBound::Builder::AddCopyBack(int64_t c, std::vector<int64_t> stays) {
  if (stays.empty()) return;
  const int64_t copied = AddVariable();
  Work(d2h_, copied, CopyBackWork(chunk(c).home_bytes()));
  for (const int64_t stay : stays) {
    program_.rows.push_back(
        {{{side(c), 1.0}, {stay, -1.0}, {copied, -1.0}}, 0});
  }
  bound_.copies_back_.push_back({c, copied, std::move(stays)});
}

void LinearBound::Builder::AddOperators() {
  std::vector<int64_t> last_reduce(chunks_, -1);
  std::vector<bool> written(chunks_, false);
  for (int64_t t = 0; t < moments_; ++t) {
    const OpRecord& op = trace_.ops[t];
    if (op.kind == OpKind::kReduce) {
      last_reduce[op.chunks[0].chunk.value] = t;
    }
  }
  for (int64_t t = 0; t < moments_; ++t) {
    const OpRecord& op = trace_.ops[t];
    room_mib_[t] =
        Mib(request_.device_budget_bytes - request_.device_reserved_bytes -
            op.non_model_peak_bytes);
    if (op.kind == OpKind::kCompute) {
      Always(compute_, Ms(op.duration_ns));
      for (const ChunkUse& use : op.chunks) {
        const int64_t c = use.chunk.value;
        room_mib_[t] -= Mib(PayloadBlock(chunk(c)));
        if (use.writes) written[c] = true;
      }
      continue;
    }
    const int64_t c = op.chunks[0].chunk.value;
    Hold(side(c), PayloadBlock(chunk(c)), t, t + 1);
    Row& on_device = RunsOnNetwork(trace_, op) ? network_ : compute_;
    Work(on_device, side(c), Ms(op.duration_ns));
    if (op.kind == OpKind::kUpdate) {
      OnHost(host_, c, Ms(op.host_duration_ns), /*and_sum=*/false);
      Work(network_, side(c), ExchangeMs(c));
      continue;
    }
    Work(on_device, sum(c), Ms(op.duration_ns));
    OnHost(host_, c, Ms(op.host_duration_ns), /*and_sum=*/true);
    Always(network_, ExchangeMs(c));
    if (t != last_reduce[c]) Work(network_, side(c), ExchangeMs(c));
    if (t == last_reduce[c]) {
      Hold(sum(c), PayloadBlock(chunk(c)), t, t + 1);
    }
    if (written[c]) {
      OnHost(d2h_, c, CopyBackWork(chunk(c).payload_bytes), /*and_sum=*/true);
    }
    written[c] = false;
  }
}

void LinearBound::Builder::AddMoved() {
  int64_t moved = 0;
  for (Row* way : {&h2d_, &d2h_}) {
    bound_.held_.push_back({++moved, -1, way->terms, -way->at_most});
    Work(*way, moved, -1);
    program_.rows.push_back(*way);
  }
  program_.rows.push_back({{{1, 1.0}, {2, 1.0}, {0, -1.0}}, 0});
}

void LinearBound::Builder::LeaveOutWhatIsTooLarge() {
  for (const HeldOver& hold : holds_) {
    for (int64_t t = hold.from; t < hold.to; ++t) {
      if (room_mib_[t % moments_] >= hold.mib) continue;
      program_.variables[hold.variable].at_most = 0;
      break;
    }
  }
}

void LinearBound::Builder::AddRoom() {
  int64_t before = -1;
  double room = 0;
  for (int64_t t = 0; t < moments_; ++t) {
    const bool last = t + 1 == moments_;
    room = t == 0 || !change_[t].empty() ? room_mib_[t]
                                         : std::min(room, room_mib_[t]);
    if (t == 0 || !change_[t].empty()) {
      Row row;
      row.terms = change_[t];
      if (before >= 0) row.terms.push_back({before, 1.0});
      const int64_t now = AddSum();
      bound_.held_.push_back({now, before, change_[t]});
      row.terms.push_back({now, -1.0});
      program_.rows.push_back(std::move(row));
      before = now;
    }
    bound_.held_at_.push_back(before);
    if (last || !change_[t + 1].empty()) {
      program_.rows.push_back({{{before, 1.0}}, room});
    }
  }
}

LinearBound::LinearBound(const PlanRequest& request, Objective objective)
    : request_(request) {
  Builder(this, objective).Build();
}

}  // namespace castor
