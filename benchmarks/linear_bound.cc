#include "benchmarks/linear_bound.h"

#include <algorithm>
#include <limits>
#include <map>

#include "absl/types/span.h"
#include "benchmarks/linear_units.h"
#include "benchmarks/linear_windows.h"
#include "memory/plan/offloaded_blocks.h"
#include "memory/plan/use_index.h"

namespace castor {

// Adds up what each resource works and what is held at each moment.
class LinearBound::Builder {
 public:
  Builder(LinearBound* bound, Objective objective)
      : bound_(*bound),
        counts_mib_(objective == Objective::kMovedMib),
        request_(bound->request_),
        trace_(*request_.trace),
        program_(bound->program_),
        chunks_(static_cast<int64_t>(trace_.chunks.size())),
        moments_(static_cast<int64_t>(trace_.ops.size())),
        held_(moments_),
        change_(moments_ + 1) {}

  void Build() {
    AddSum();
    if (counts_mib_) AddSum(), AddSum();
    AddSides();
    AddDeviceBlocks();
    AddHostGaps();
    AddDeviceGaps();
    AddOperators();
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
    AddRounds();
    AddTurns();
  }

 private:
  using Row = LinearProgram::Row;

  int64_t AddVariable(double at_most = 1, bool whole = true) {
    program_.variables.push_back({at_most, whole});
    return static_cast<int64_t>(program_.variables.size()) - 1;
  }
  int64_t AddSum() {  // of others, of any size
    return AddVariable(std::numeric_limits<double>::infinity(),
                       /*whole=*/false);
  }
  int64_t side(int64_t c) const { return bound_.on_device_[c]; }
  int64_t sum(int64_t c) const { return bound_.summed_[c]; }
  bool sharded() const { return request_.world_size > 1; }
  const ChunkInfo& chunk(int64_t c) const { return trace_.chunks[c]; }

  // A resource works for `ms` per unit of a variable, or of 1 without. Of the
  // two directions of the bus it is MiB instead where these are counted.
  static void Work(Row& row, int64_t variable, double ms) {
    if (variable >= 0) row.terms.push_back({variable, ms});
  }
  static void Always(Row& row, double ms) { row.at_most -= ms; }
  // For the part of a chunk that is on the host's side, its sum there if
  // `and_sum`.
  void OnHost(Row& row, int64_t c, double ms, bool and_sum) {
    Always(row, ms);
    Work(row, side(c), -ms);
    if (and_sum) Work(row, sum(c), -ms);
  }
  double FetchMs(int64_t c) const {
    return TransferMs(request_.bus, chunk(c).home_bytes(),
                      request_.bus.h2d_bytes_per_s);
  }
  double CopyBackMs(int64_t bytes) const {
    return TransferMs(request_.bus, bytes, request_.bus.d2h_bytes_per_s);
  }
  double FetchWork(int64_t c) const {
    return counts_mib_ ? Mib(chunk(c).home_bytes()) : FetchMs(c);
  }
  double CopyBackWork(int64_t bytes) const {
    return counts_mib_ ? Mib(bytes) : CopyBackMs(bytes);
  }
  double ExchangeMs(int64_t c) const {
    if (!sharded()) return 0;
    return TransferMs(request_.bus,
                      chunk(c).payload_bytes - chunk(c).home_bytes(),
                      request_.bus.network_bytes_per_s);
  }

  // What a variable holds over [from, to), around the step's end too.
  void Hold(int64_t variable, int64_t bytes, int64_t from, int64_t to) {
    if (from >= to || variable < 0) return;
    if (from >= moments_) from -= moments_, to -= moments_;
    change_[from].push_back({variable, Mib(bytes)});
    change_[std::min(to, moments_)].push_back({variable, -Mib(bytes)});
    if (to <= moments_) return;
    change_[0].push_back({variable, Mib(bytes)});
    change_[to - moments_].push_back({variable, -Mib(bytes)});
  }

  void AddSides() {
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

  // What ranks put back for the next micro batch they gather, unless gradients
  // have a block.
  void AddDeviceBlocks() {
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

  int64_t AddStay(const Gap& gap, Side on) {
    const int64_t variable = AddVariable();
    bound_.stays_.push_back({gap.chunk, on, gap.from, gap.to, variable});
    Hold(variable, gap.bytes, gap.from + 1, gap.to);
    return variable;
  }

  void AddHostGaps() {
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
      if (!gap.dirty) {
        OnHost(network_, c, ExchangeMs(c), /*and_sum=*/false);
      }
      if (gap.forced()) continue;
      const int64_t stay = AddStay(gap, Side::kHost);
      stay_in[g] = stay;
      Work(h2d_, stay, -FetchWork(c));
      if (!gap.dirty) Work(network_, stay, -ExchangeMs(c));
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

  // Gradients in the payload's place that leave before the last of them is
  // written are copied back then, too, beside the copy to their reduce; so are
  // activations that leave.
  void AddOtherCopiesBack(const UseIndex& index, int64_t c,
                          const std::vector<int64_t>& reduces,
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

  std::vector<Side> DeviceSides() const {
    std::vector<Side> device(chunks_, Side::kHost);
    for (int64_t c = 0; c < chunks_; ++c) {
      if (side(c) >= 0) device[c] = Side::kDevice;
    }
    return device;
  }

  void AddDeviceGaps() {
    const UseIndex index(trace_, DeviceSides());
    for (int64_t c = 0; c < chunks_; ++c) {
      if (side(c) < 0) continue;
      // What is left after a write is copied back once until the next one, that
      // of the next step after the last one here.
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

  void AddCopyBack(int64_t c, std::vector<int64_t> stays) {
    if (stays.empty()) return;
    const int64_t copied = AddVariable();
    Work(d2h_, copied, CopyBackWork(chunk(c).home_bytes()));
    for (const int64_t stay : stays) {
      program_.rows.push_back(
          {{{side(c), 1.0}, {stay, -1.0}, {copied, -1.0}}, 0});
    }
    bound_.copies_back_.push_back({c, copied, std::move(stays)});
  }

  void AddOperators() {
    std::vector<int64_t> first_use(chunks_, -1), last_write(chunks_, -1);
    std::vector<int64_t> last_reduce(chunks_, -1);
    std::vector<bool> written(chunks_, false);
    for (int64_t t = 0; t < moments_; ++t) {
      const OpRecord& op = trace_.ops[t];
      if (op.kind == OpKind::kReduce) {
        last_reduce[op.chunks[0].chunk.value] = t;
      }
    }
    double compute_ms = 0;
    rounds_.assign(chunks_, {});
    for (int64_t t = 0; t < moments_; ++t) {
      const OpRecord& op = trace_.ops[t];
      held_[t] = Mib(request_.device_budget_bytes -
                     request_.device_reserved_bytes - op.non_model_peak_bytes);
      if (op.kind == OpKind::kCompute) {
        Always(compute_, Ms(op.duration_ns));
        for (const ChunkUse& use : op.chunks) {
          const int64_t c = use.chunk.value;
          held_[t] -= Mib(PayloadBlock(chunk(c)));
          Round& round = rounds_[c];
          if (round.first_ms < 0) round.first_ms = compute_ms;
          if (use.writes) {
            round.last_ms = compute_ms + Ms(op.duration_ns);
            written[c] = true;
          }
        }
        compute_ms += Ms(op.duration_ns);
        continue;
      }
      const int64_t c = op.chunks[0].chunk.value;
      Hold(side(c), PayloadBlock(chunk(c)), t, t + 1);
      Row& on_device = RunsOnNetwork(trace_, op) ? network_ : compute_;
      Work(on_device, side(c), Ms(op.duration_ns));
      if (op.kind == OpKind::kUpdate) {
        OnHost(host_, c, Ms(op.host_duration_ns), /*and_sum=*/false);
        Work(network_, side(c), ExchangeMs(c));
        rounds_[c].update_ms = Ms(op.host_duration_ns);
        continue;
      }
      Work(on_device, sum(c), Ms(op.duration_ns));
      OnHost(host_, c, Ms(op.host_duration_ns), /*and_sum=*/true);
      Always(network_, ExchangeMs(c));
      if (t != last_reduce[c]) Work(network_, side(c), ExchangeMs(c));
      if (rounds_[c].first_ms < 0) rounds_[c].reduced_unused = true;
      if (t == last_reduce[c]) {
        Hold(sum(c), PayloadBlock(chunk(c)), t, t + 1);
        rounds_[c].reduce_ms = Ms(op.host_duration_ns);
        rounds_[c].reduced = written[c];
        rounds_[c].last_reduce = &op;
      }
      if (written[c]) {
        OnHost(d2h_, c, CopyBackWork(chunk(c).payload_bytes), /*and_sum=*/true);
      }
      written[c] = false;
    }
    compute_ms_ = compute_ms;
  }

  // The step is no shorter than a resource works.
  void AddWork(Row row) {
    row.terms.push_back({0, -1.0});
    program_.rows.push_back(std::move(row));
  }

  // What crosses the bus, each way and both.
  void AddMoved() {
    int64_t moved = 0;
    for (Row* way : {&h2d_, &d2h_}) {
      bound_.held_.push_back({++moved, -1, way->terms, -way->at_most});
      Work(*way, moved, -1);
      program_.rows.push_back(*way);
    }
    program_.rows.push_back({{{1, 1.0}, {2, 1.0}, {0, -1.0}}, 0});
  }

  // The step is no shorter, either, than a chunk of the host's side takes from
  // its first use to its first use: compute goes on to the last write before
  // some reduce, whose gradients are copied and reduced; then come the updates
  // on the host as far as the chunk's, which run in the order of the step; then
  // its fetch. All reduces are before all updates, but for steps that update at
  // once: there it is its own reduce. Of many chunks some stand for all.
  void AddRounds() {
    std::vector<int64_t> updates, reduces;
    // Whether updates may be before reduces: speculative ones are, too.
    bool mixed = request_.speculation.host_bytes > 0;
    for (const OpRecord& op : trace_.ops) {
      if (op.kind == OpKind::kCompute) continue;
      const int64_t c = op.chunks[0].chunk.value;
      if (op.kind == OpKind::kUpdate) {
        updates.push_back(c);
        continue;
      }
      mixed |= !updates.empty();
      if (IsRound(c) && rounds_[c].last_reduce == &op) reduces.push_back(c);
    }
    constexpr size_t kSome = 24;
    std::vector<int64_t> updated;  // before the chunk at hand, itself included
    for (size_t u = 0; u < updates.size(); ++u) {
      const int64_t c = updates[u];
      updated.push_back(c);
      if (!IsRound(c)) continue;
      AddRound(c, c, {c});
      if (mixed || !(u == 0 || IsOneOfSome(u, updates.size(), kSome))) {
        continue;
      }
      for (size_t r = 0; r < reduces.size(); ++r) {
        if (IsOneOfSome(r, reduces.size(), kSome))
          AddRound(c, reduces[r], updated);
      }
    }
  }
  bool IsRound(int64_t c) const {
    return rounds_[c].reduced && !rounds_[c].reduced_unused;
  }
  void AddRound(int64_t c, int64_t reduced,
                const std::vector<int64_t>& updated) {
    const double ms = rounds_[reduced].last_ms - rounds_[c].first_ms +
                      CopyBackMs(chunk(reduced).payload_bytes) +
                      rounds_[reduced].reduce_ms + FetchMs(c);
    double updates_ms = 0;
    for (const int64_t u : updated) updates_ms += rounds_[u].update_ms;
    // Without both on the host, the operators or the host's work are left.
    const double most_ms = std::min(ms, ms + updates_ms - compute_ms_);
    if (most_ms <= 0) return;
    Row row;
    Always(row, ms);
    Work(row, side(reduced), -most_ms);
    Work(row, sum(reduced), -most_ms);
    if (c != reduced) Work(row, side(c), -most_ms);
    for (const int64_t u : updated) {
      OnHost(row, u, rounds_[u].update_ms, /*and_sum=*/false);
    }
    AddWork(std::move(row));
  }

  // Where gradients are clipped, no chunk is updated before the last one's
  // gradients are there, on whichever side. So what the bus and the host do
  // between some write and the norm, and between the norm and some use in the
  // next step, adds up, whoever of the chunks has its states on the host: in a
  // window that begins with the last write of chunk r, the copies of all
  // gradients that are written with it or later; then the updates as far as
  // chunk i's, in the order of the step; then the fetches of all that are
  // updated with it or later and used as soon as chunk k. That holds with any
  // of the three on the device's side, too: what is left out then shortens no
  // window. The step is a turn of it all, so r, i and k each stand for a row;
  // of many chunks some stand for all.
  void AddTurns() {
    if (!trace_.global_norm || request_.speculation.host_bytes > 0) return;
    std::vector<int64_t> updated, written;
    bool reduces_first = true;
    for (const OpRecord& op : trace_.ops) {
      if (op.kind == OpKind::kCompute) continue;
      const int64_t c = op.chunks[0].chunk.value;
      if (op.kind == OpKind::kReduce) {
        reduces_first &= updated.empty();
        if (IsRound(c) && rounds_[c].last_reduce == &op) written.push_back(c);
      } else if (IsRound(c)) {
        updated.push_back(c);
      }
    }
    if (!reduces_first || updated.empty() || written.empty()) return;
    std::stable_sort(written.begin(), written.end(), [&](int64_t a, int64_t b) {
      return rounds_[a].last_ms > rounds_[b].last_ms;
    });
    std::vector<int64_t> copies, updates, fetches;
    std::vector<double> reduced_ms, gathered_ms;  // by the network, so far
    double network_ms = 0;
    for (const int64_t c : written) {
      AddToChain(copies, c, CopyBackMs(chunk(c).payload_bytes), sum(c));
      reduced_ms.push_back(network_ms += ExchangeMs(c));
    }
    network_ms = 0;
    // By when the last one so far must be back.
    std::vector<double> use_ms;
    for (const int64_t c : updated) {
      AddToChain(updates, c, rounds_[c].update_ms, -1);
      AddToChain(fetches, c, FetchMs(c), -1);
      gathered_ms.push_back(network_ms += ExchangeMs(c));
      use_ms.push_back(use_ms.empty()
                           ? rounds_[c].first_ms
                           : std::max(use_ms.back(), rounds_[c].first_ms));
    }
    constexpr size_t kSome = 16;
    for (size_t r = 0; r < written.size(); ++r) {
      if (!IsOneOfSome(r, written.size(), kSome)) continue;
      for (size_t k = 0; k < updated.size(); ++k) {
        if (!IsOneOfSome(k, updated.size(), kSome)) continue;
        const double ms = rounds_[written[r]].last_ms - use_ms[k];
        for (size_t i = 0; i <= k; ++i) {
          if (i != k && !IsOneOfSome(i, updated.size(), kSome)) continue;
          Row after;
          Always(after, ms);
          Work(after, updates[i], 1);
          Work(after, fetches[k], 1);
          if (i > 0) Work(after, fetches[i - 1], -1);
          Row copied = after;
          Work(copied, copies[r], 1);
          AddWork(std::move(copied));
          if (!sharded()) continue;
          Always(after, reduced_ms[r]);
          AddWork(std::move(after));
        }
        if (!sharded()) continue;
        Row after;
        Always(after, ms + gathered_ms[k]);
        Row copied = after;
        Work(copied, copies[r], 1);
        AddWork(std::move(copied));
        Always(after, reduced_ms[r]);
        AddWork(std::move(after));
      }
    }
  }
  // Whether chunk i is one of about `some` that stand for all `size`. The last
  // one is.
  static bool IsOneOfSome(size_t i, size_t size, size_t some) {
    return (size - 1 - i) % std::max<size_t>(1, size / some) == 0;
  }
  // Adds a variable for the ms that all chunks of a chain so far take for as
  // much of them as is on the host, and whose gradients are added up there if
  // `sum` is a variable.
  void AddToChain(std::vector<int64_t>& chain, int64_t c, double ms,
                  int64_t sum) {
    const int64_t before = chain.empty() ? -1 : chain.back();
    const int64_t now = AddSum();
    LinearBound::Held held = {now, before, {}, ms};
    Row row;
    Always(row, ms);
    Work(row, now, -1);
    Work(row, before, 1);
    for (const int64_t variable : {side(c), sum}) {
      if (variable < 0) continue;
      held.changes.push_back({variable, -ms});
      Work(row, variable, -ms);
    }
    // Both ways: rows may have the difference of two.
    Row other = row;
    for (auto& [variable, factor] : other.terms) factor = -factor;
    other.at_most = -other.at_most;
    program_.rows.push_back(std::move(row));
    program_.rows.push_back(std::move(other));
    bound_.held_.push_back(std::move(held));
    chain.push_back(now);
  }

  // At each moment what is held is at most what is left. Rows have the changes
  // alone, with a variable for what is held.
  void AddRoom() {
    int64_t before = -1;
    for (int64_t t = 0; t < moments_; ++t) {
      const bool last = t + 1 == moments_;
      room_ =
          t == 0 || !change_[t].empty() ? held_[t] : std::min(room_, held_[t]);
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
        program_.rows.push_back({{{before, 1.0}}, room_});
      }
    }
  }

  struct Round {
    double first_ms = -1;  // of compute before its first use
    double last_ms = 0;    // and until its last write is over
    double reduce_ms = 0;  // of the host, of the last micro batch
    double update_ms = 0;
    const OpRecord* last_reduce = nullptr;
    bool reduced = false;
    bool reduced_unused = false;  // before its first use, as no model does
  };

  LinearBound& bound_;
  const bool counts_mib_;  // those moved, instead of ms
  const PlanRequest& request_;
  const StepTrace& trace_;
  LinearProgram& program_;
  const int64_t chunks_;
  const int64_t moments_;
  std::vector<double> held_;  // what is left beside what must be there
  std::vector<std::vector<std::pair<int64_t, double>>> change_;
  std::vector<GradientBlock> possible_;
  std::map<std::pair<int64_t, int64_t>, int64_t> block_of_;
  std::vector<Round> rounds_;
  double compute_ms_ = 0;  // of the model's operators
  double room_ = 0;
  Row h2d_, d2h_, compute_, host_, network_;
};

LinearBound::LinearBound(const PlanRequest& request, Objective objective)
    : request_(request) {
  Builder(this, objective).Build();
  // Windows know nothing of activations that leave and come back.
  if (objective == Objective::kStepMs && !OffloadsActivations(*request.trace)) {
    windows_ = std::make_unique<Windows>(this);
  }
}

LinearBound::~LinearBound() = default;

}  // namespace castor
