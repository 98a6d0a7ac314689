#include "research/turns.h"

#include <algorithm>
#include <utility>

#include "benchmarks/linear_units.h"
#include "memory/plan/residency/use_index.h"

namespace castor {

void TightBound::Turns::Add() {
  FindRounds();
  if (sharded()) FindGathers();
  AddRounds();
  AddTurns();
}

void TightBound::Turns::FindRounds() {
  std::vector<int64_t> last_reduce(chunks_, -1), last_write(chunks_, -1);
  for (int64_t t = 0; t < moments_; ++t) {
    const OpRecord& op = trace_.ops[t];
    if (op.kind != OpKind::kReduce) continue;
    last_reduce[op.chunks[0].chunk.value] = t;
  }
  std::vector<bool> written(chunks_, false);
  rounds_.assign(chunks_, {});
  for (int64_t t = 0; t < moments_; ++t) {
    const OpRecord& op = trace_.ops[t];
    if (op.kind == OpKind::kCompute) {
      for (const ChunkUse& use : op.chunks) {
        const int64_t c = use.chunk.value;
        Round& round = rounds_[c];
        if (round.first_ms < 0) {
          round.first_use = t;
          round.first_ms = compute_ms_;
        }
        if (!use.writes) continue;
        round.last_ms = compute_ms_ + Ms(op.duration_ns);
        written[c] = true;
        last_write[c] = t;
      }
      compute_ms_ += Ms(op.duration_ns);
      continue;
    }
    const int64_t c = op.chunks[0].chunk.value;
    Round& round = rounds_[c];
    if (op.kind == OpKind::kUpdate) {
      round.update_ms = Ms(op.host_duration_ns);
      continue;
    }
    if (round.first_ms < 0) round.reduced_unused = true;
    if (t == last_reduce[c]) {
      round.reduce_ms = Ms(op.host_duration_ns);
      round.reduced = written[c];
      round.last_reduce = &op;
    }
    if (!written[c]) continue;
    written_.push_back({c, round.last_ms, Ms(op.host_duration_ns)});
    last_write_ = std::max(last_write_, last_write[c]);
    written[c] = false;
  }
}

void TightBound::Turns::FindGathers() {
  const std::vector<Side> host(chunks_, Side::kHost);
  const UseIndex index(trace_, host, PossibleGradientBlocks(trace_, host));
  for (const Gap& gap : index.gaps()) {
    // Parameters are gathered, gradients that come back half written are not.
    if (gap.makes || (gap.dirty && !gap.forced())) continue;
    Gather& gather = gathers_.emplace_back();
    gather = {gap.chunk, gap.from, gap.to, -1};
    for (const Stay& stay : tight_.stays_) {
      if (stay.chunk == gap.chunk && stay.side == Side::kHost &&
          stay.from == gap.from && stay.to == gap.to) {
        gather.stay = stay.variable;
      }
    }
  }
}

void TightBound::Turns::AddRounds() {
  std::vector<int64_t> updates, reduces;
  // True if updates may be before reduces: speculative ones are, too.
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

void TightBound::Turns::AddRound(int64_t c, int64_t reduced,
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

void TightBound::Turns::AddTurns() {
  if (!trace_.global_norm || request_.speculation.host_bytes > 0) return;
  std::vector<int64_t> chunks;
  for (const OpRecord& op : trace_.ops) {
    if (op.kind == OpKind::kCompute) continue;
    const int64_t c = op.chunks[0].chunk.value;
    // A step that updates at once has no norm of them all.
    if (op.kind == OpKind::kReduce && !chunks.empty()) return;
    if (op.kind == OpKind::kUpdate && IsRound(c)) chunks.push_back(c);
  }
  if (chunks.empty() || written_.empty()) return;
  const Updated updated = AddUpdated(chunks);
  const std::vector<Reduced> reduced = AddReduced();
  constexpr size_t kSome = 16;
  for (size_t k = 0; k < chunks.size(); ++k) {
    if (!IsOneOfSome(k, chunks.size(), kSome)) continue;
    const Row gathers = GathersAfter(updated.use[k]);
    for (const Row& to_use : WaysToUse(updated, k)) {
      for (const Reduced& each : reduced) {
        Row row = to_use;
        Always(row, each.written_ms - updated.use_ms[k]);
        Row copied = row;
        Work(copied, each.copies, 1);
        AddWork(std::move(copied));
        Row added_up = row;
        Work(added_up, each.reduces, 1);
        AddWork(std::move(added_up));
        if (!sharded()) continue;
        Always(row, each.exchanged_ms);
        AddWork(std::move(row));
      }
      if (!sharded()) continue;
      Row row = gathers;
      row.terms.insert(row.terms.end(), to_use.terms.begin(),
                       to_use.terms.end());
      row.at_most += to_use.at_most;
      Always(row, reduced.back().exchanged_ms);
      AddWork(std::move(row));
    }
  }
}

TightBound::Turns::Updated TightBound::Turns::AddUpdated(
    const std::vector<int64_t>& updated) {
  Updated all;
  int64_t update = -1, fetch = -1, use = -1;
  double gathered_ms = 0, use_ms = 0;
  for (const int64_t c : updated) {
    update = AddToChain(update, {{c, rounds_[c].update_ms}});
    fetch = AddToChain(fetch, {{c, FetchMs(c)}});
    use = std::max(use, rounds_[c].first_use);
    use_ms = std::max(use_ms, rounds_[c].first_ms);
    gathered_ms += ExchangeMs(c);
    all.update.push_back(update);
    all.fetch.push_back(fetch);
    all.gathered_ms.push_back(gathered_ms);
    all.use.push_back(use);
    all.use_ms.push_back(use_ms);
  }
  return all;
}

std::vector<TightBound::Turns::Reduced> TightBound::Turns::AddReduced() {
  std::stable_sort(
      written_.begin(), written_.end(),
      [](const Written& a, const Written& b) { return a.ms > b.ms; });
  constexpr size_t kSome = 16;
  std::vector<Reduced> all;
  Reduced now;
  std::vector<Link> copies, reduces;  // since the last one of `all`
  for (size_t r = 0; r < written_.size(); ++r) {
    const Written& each = written_[r];
    const int64_t c = each.chunk;
    copies.push_back({c, CopyBackMs(chunk(c).payload_bytes), /*and_sum=*/true});
    reduces.push_back({c, each.reduce_ms, /*and_sum=*/true});
    now.exchanged_ms += ExchangeMs(c);
    if (!IsOneOfSome(r, written_.size(), kSome)) continue;
    now.written_ms = each.ms;
    now.copies = AddToChain(now.copies, copies);
    now.reduces = AddToChain(now.reduces, reduces);
    copies.clear();
    reduces.clear();
    all.push_back(now);
  }
  return all;
}

std::vector<TightBound::Turns::Row> TightBound::Turns::WaysToUse(
    const Updated& updated, size_t k) {
  constexpr size_t kSome = 16;
  std::vector<Row> ways;
  for (size_t i = 0; i <= k; ++i) {
    if (i != k && !IsOneOfSome(i, updated.update.size(), kSome)) continue;
    Row& row = ways.emplace_back();
    Work(row, updated.update[i], 1);
    Work(row, updated.fetch[k], 1);
    if (i > 0) Work(row, updated.fetch[i - 1], -1);
  }
  if (sharded()) Always(ways.emplace_back(), updated.gathered_ms[k]);
  return ways;
}

TightBound::Turns::Row TightBound::Turns::GathersAfter(int64_t use) {
  Row row;
  int64_t least = use;
  for (int64_t t = use; t <= last_write_; ++t) {
    const bool computes = trace_.ops[t].kind == OpKind::kCompute;
    if (computes && room_mib_[t] < room_mib_[least]) least = t;
  }
  double most_ms_per_mib = 0;  // of what may have been gathered before
  for (const Gather& gather : gathers_) {
    if (gather.to > last_write_) continue;
    const double ms = ExchangeMs(gather.chunk);
    const int64_t no_room =
        tight_.LastWithoutRoom(gather.chunk, gather.from, gather.to);
    if (std::max(gather.from, no_room) < use) {
      // It would be there at the operator that leaves the least room.
      if (gather.from >= least || gather.to <= least) continue;
      most_ms_per_mib = std::max(most_ms_per_mib,
                                 ms / Mib(PayloadBlock(chunk(gather.chunk))));
    }
    OnHost(row, gather.chunk, ms, /*and_sum=*/false);
    Work(row, gather.stay, -ms);
  }
  Always(row, -most_ms_per_mib * room_mib_[least]);
  Work(row, tight_.held_at_[least], most_ms_per_mib);
  return row;
}

int64_t TightBound::Turns::AddToChain(int64_t before,
                                      const std::vector<Link>& links) {
  const int64_t now = AddSum();
  Held held = {now, before, {}, 0};
  Row row;
  Work(row, now, -1);
  Work(row, before, 1);
  for (const Link& link : links) {
    const int64_t c = link.chunk;
    held.always += link.ms;
    OnHost(row, c, link.ms, link.and_sum);
    for (const int64_t variable : {side(c), link.and_sum ? sum(c) : -1}) {
      if (variable >= 0) held.changes.push_back({variable, -link.ms});
    }
  }
  // Both ways: rows may have the difference of two.
  Row other = row;
  for (auto& [variable, factor] : other.terms) factor = -factor;
  other.at_most = -other.at_most;
  program_.rows.push_back(std::move(row));
  program_.rows.push_back(std::move(other));
  tight_.held_.push_back(std::move(held));
  return now;
}

}  // namespace castor
