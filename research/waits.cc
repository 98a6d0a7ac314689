// Adds the times that copies take between two operators where their chunks
// cannot be there while these run.
#include <algorithm>
#include <utility>

#include "benchmarks/linear_units.h"
#include "research/windows.h"

namespace castor {

int64_t TightBound::Windows::FirstWithoutRoom(int64_t chunk,
                                              int64_t from) const {
  for (int64_t t = from + 1; t < from + moments_; ++t) {
    if (bound_.LacksRoom(t, chunk)) return t;
  }
  return -1;
}

double TightBound::Windows::HostMs(int64_t chunk, int64_t from,
                                   int64_t to) const {
  double ms = 0;
  for (int64_t t = from; t <= to; ++t) {
    const OpRecord& op = trace_.ops[t % moments_];
    if (op.kind != OpKind::kCompute && op.chunks[0].chunk.value == chunk) {
      ms += Ms(op.host_duration_ns);
    }
  }
  return ms;
}

double TightBound::Windows::ComputeMs(int64_t from, int64_t to) const {
  const auto before = [&](int64_t t) {
    return compute_ms_[moments_] * static_cast<double>(t / moments_) +
           compute_ms_[t % moments_];
  };
  return before(to) - before(from);
}

TightBound::Windows::Share TightBound::Windows::ShareOf(const Copy& copy,
                                                        bool is_summed) const {
  const bool on_host = copy.side == Side::kHost;
  Share share = {on_host ? 1.0 : 0.0, {}};
  const auto add = [&](int64_t variable, double factor) {
    if (variable >= 0) share.changes.push_back({variable, factor});
  };
  add(bound_.on_device_[copy.chunk], on_host ? -1 : 1);
  add(copy.stay, -1);
  if (!is_summed) add(bound_.summed_[copy.chunk], -1);
  return share;
}

void TightBound::Windows::AddWait(int64_t from, int64_t to, double ms,
                                  std::vector<Share> shares) {
  const double longer_ms = ms - ComputeMs(from + 1, to);
  if (longer_ms <= 0) return;
  Wait wait = {from, to, longer_ms, std::move(shares)};
  const int64_t first = WindowAt(from + 1);
  const int64_t last = WindowAt(to);
  if (first == last) {
    const int64_t steps = first / windows();
    wait.from -= steps * moments_;
    wait.to -= steps * moments_;
    waits_[first % windows()].push_back(std::move(wait));
  } else {
    AddTogether(first, last, {&wait});
  }
}

void TightBound::Windows::AddTogether(int64_t first, int64_t last,
                                      const std::vector<const Wait*>& waits) {
  Row row;
  for (int64_t w = first; w <= last; ++w) {
    row.terms.push_back({windows_[w % windows()].variable, -1.0});
  }
  const int64_t begin = first == 0 ? 0 : EndOf(first - 1) + 1;
  row.at_most = -ComputeMs(begin, EndOf(last) + 1);
  for (const Wait* const wait : waits) {
    // All of the shares: one less what each of them lacks.
    row.at_most -= wait->longer_ms;
    for (const Share& share : wait->shares) {
      row.at_most += (1 - share.always) * wait->longer_ms;
      for (const auto& [variable, factor] : share.changes) {
        row.terms.push_back({variable, factor * wait->longer_ms});
      }
    }
  }
  program_.rows.push_back(std::move(row));
}

void TightBound::Windows::AddWaitsOfWindows() {
  for (int64_t w = 0; w < windows(); ++w) {
    std::vector<Wait>& waits = waits_[w];
    std::stable_sort(waits.begin(), waits.end(),
                     [](const Wait& a, const Wait& b) { return a.to < b.to; });
    // Element i says how long those of the first i waits take together that
    // follow one another and take the longest.
    std::vector<double> longest_ms = {0};
    std::vector<size_t> before(waits.size());
    for (size_t i = 0; i < waits.size(); ++i) {
      before[i] = std::partition_point(waits.begin(), waits.begin() + i,
                                       [&](const Wait& other) {
                                         return other.to <= waits[i].from;
                                       }) -
                  waits.begin();
      longest_ms.push_back(
          std::max(longest_ms[i], longest_ms[before[i]] + waits[i].longer_ms));
    }
    std::vector<const Wait*> chosen;
    for (size_t i = waits.size(); i > 0;) {
      if (longest_ms[i] == longest_ms[i - 1]) {
        --i;
        continue;
      }
      chosen.push_back(&waits[i - 1]);
      i = before[i - 1];
    }
    if (!chosen.empty()) AddTogether(w, w, chosen);
    for (const Wait& wait : waits) AddTogether(w, w, {&wait});
  }
}

void TightBound::Windows::AddWaits() {
  std::vector<std::vector<const Copy*>> fetches_before(moments_);
  for (const Copy& fetch : fetches_) {
    const Share share = ShareOf(fetch, /*is_summed=*/true);
    if (fetch.no_room >= 0) AddWait(fetch.no_room, fetch.to, fetch.ms, {share});
    if (fetch.update_ms > 0) {
      AddWait(last_write_, fetch.to, fetch.update_ms + fetch.ms, {share});
    }
    if (fetch.side == Side::kHost) {
      fetches_before[fetch.to % moments_].push_back(&fetch);
    }
    if (fetch.gradients_ms == 0) continue;
    AddWait(fetch.written, fetch.to, fetch.gradients_ms + fetch.ms,
            {ShareOf(fetch, /*is_summed=*/false)});
  }
  for (const Copy& copy : gradients_) {
    if (copy.no_room >= 0) {
      AddWait(copy.from, copy.no_room, copy.ms,
              {ShareOf(copy, /*is_summed=*/false)});
    }
    AddExchanges(copy, fetches_before);
  }
  AddWaitsOfWindows();
}

void TightBound::Windows::AddExchanges(
    const Copy& gradients,
    const std::vector<std::vector<const Copy*>>& fetches_before) {
  const double mib = Mib(PayloadBlock(trace_.chunks[gradients.chunk]));
  int64_t largest = 0;
  for (const ChunkInfo& chunk : trace_.chunks) {
    largest = std::max(largest, PayloadBlock(chunk));
  }
  const auto free_mib = [&](int64_t t) {
    return Mib(request_.device_budget_bytes - request_.device_reserved_bytes -
               trace_.ops[t % moments_].non_model_peak_bytes);
  };
  double beside_mib = 0;  // the most that there was beside them so far
  double waiting_mib = free_mib(gradients.from);
  for (int64_t t = gradients.from + 1; t < gradients.from + moments_; ++t) {
    waiting_mib = std::max(waiting_mib, free_mib(t));
    if (trace_.ops[t % moments_].kind != OpKind::kCompute) continue;
    beside_mib = std::max(beside_mib, waiting_mib - mib);
    if (beside_mib >= Mib(largest)) return;
    for (const Copy* const fetch : fetches_before[t % moments_]) {
      if (fetch->chunk == gradients.chunk ||
          beside_mib >= Mib(PayloadBlock(trace_.chunks[fetch->chunk]))) {
        continue;
      }
      AddWait(gradients.from, t, gradients.ms + fetch->ms,
              {ShareOf(gradients, /*is_summed=*/false),
               ShareOf(*fetch, /*is_summed=*/true)});
    }
    const double beside_uses_mib = bound_.Uses(t, gradients.chunk) ? 0 : mib;
    beside_mib =
        std::max(beside_mib, bound_.room_mib_[t % moments_] - beside_uses_mib);
    waiting_mib = free_mib(t);
  }
}

}  // namespace castor
