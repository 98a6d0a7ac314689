// Figures of a run's steps, in memory that hardly grows with their number: 8
// bytes for each step's loss (and each of its terms), which the summary lists;
// of the other figures sums, and samples of which medians are taken.
#ifndef CASTOR_CLI_TRAIN_STEP_FIGURES_H_
#define CASTOR_CLI_TRAIN_STEP_FIGURES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "run/report/step_meter.h"

namespace castor::cli {

// Medians over the steps after warm-up (over all, where there are no others).
// Where steps have several lengths, each length has its own medians, and these
// are their means, weighted by the number of steps of each length.
struct SteadyFigures {
  double step_seconds = 0;
  double tokens = 0;  // the mean; 0: every step has as many
  double stall_seconds = 0;
  int64_t h2d_bytes = 0;
  int64_t d2h_bytes = 0;
  // The bytes that are sent to other ranks and received from them.
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
};

// A sample of numbers, one a step, evenly spread over all that were added: all
// of up to kMost, of more every second one, then every fourth, and so on.
class StepSample {
 public:
  static constexpr int64_t kMost = 8192;

  void Add(const StepReport& step);
  bool empty() const { return seconds_.empty(); }
  int64_t size() const { return static_cast<int64_t>(seconds_.size()); }
  SteadyFigures Medians() const;

 private:
  int64_t seen_ = 0;
  int64_t every_ = 1;
  std::vector<double> seconds_, stall_seconds_;
  std::vector<int64_t> h2d_bytes_, d2h_bytes_, sent_bytes_, received_bytes_;
};

class StepFigures {
 public:
  // Adds a step; they come in order.
  void Add(const StepReport& step);

  bool empty() const { return losses_.empty(); }
  // The loss of every step, in order.
  const std::vector<double>& losses() const { return losses_; }
  // Where the loss has several terms, each has a list of its means in all steps
  // (StepReport::terms).
  const std::vector<std::vector<double>>& terms() const { return terms_; }
  // The latest step; there must be one.
  const StepReport& last() const { return last_; }
  int64_t skipped() const { return skipped_; }
  // How long compute waited for the network in all, and how much of it passed
  // until a late rank came: indexed by rank, as long as the highest rank that
  // was late makes it.
  double network_wait_seconds() const { return network_wait_seconds_; }
  const std::vector<double>& late_rank_seconds() const {
    return late_rank_seconds_;
  }
  SteadyFigures Steady() const;

  struct OfLength {
    int64_t steps = 0;
    double step_seconds = 0;  // as Steady's
  };
  // The steps' lengths, where they have lengths of their own.
  std::map<int64_t, OfLength> lengths() const;

 private:
  // The steps of a length.
  struct Samples {
    int64_t steps = 0;
    StepSample warmup, steady;

    SteadyFigures Medians() const {
      return (steady.empty() ? warmup : steady).Medians();
    }
  };

  std::vector<double> losses_;
  std::vector<std::vector<double>> terms_;
  StepReport last_;
  int64_t skipped_ = 0;
  double network_wait_seconds_ = 0;
  std::vector<double> late_rank_seconds_;
  int64_t tokens_ = 0;
  std::map<int64_t, Samples> samples_;  // by length
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRAIN_STEP_FIGURES_H_
