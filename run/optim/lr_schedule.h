// The learning rate of each step.
//
// With i = step - 1 (the first step is step 1), W = warmup_num_steps,
// N = total_num_steps:
//
//   g(i)   the warm-up, 0 at i = 0, 1 from i = W on; W = 1 counts as 2
//          log:     ln(i + 1) / ln(W)
//          linear:  i / W
//   none                 lr
//   WarmupLR             min + (max - min) g(i)
//   WarmupDecayLR        i < W: as WarmupLR
//                        else:  min + (max - min) (N - i) / max(1, N - W)
//   WarmupCosineLR       i < W: lr (r + (1 - r) g(i)), r = warmup_min_ratio
//                        else:  lr (c + (1 - c) (1 + cos(pi x)) / 2),
//                               x = (i - W + 1) / (N - W), c = cos_min_ratio
//   WarmupInverseSqrtLR  i < W: as WarmupLR
//                        else:  max sqrt(max(W, 1) / max(i, 1))
//   min = warmup_min_lr, max = warmup_max_lr. After step N the rate stays where
//   it is at i = N.
//
// Sources: DeepSpeed, deepspeed/runtime/lr_schedules.py (WarmupLR,
// WarmupDecayLR, WarmupCosineLR) with last_batch_iteration = i. We differ in
// three places. DeepSpeed's engine runs one step behind (its first two steps
// both have g = 0); i = step - 1 is PyTorch's and Hugging Face's count. W = 0,
// which DeepSpeed refuses, is no warm-up. After N DeepSpeed's cosine rises
// again. The inverse square root is Vaswani et al., "Attention is all you
// need", 2017, section 5.3, scaled so that `max` is reached at i = W, as
// Hugging Face's get_inverse_sqrt_schedule does.
#ifndef CASTOR_RUN_OPTIM_LR_SCHEDULE_H_
#define CASTOR_RUN_OPTIM_LR_SCHEDULE_H_

#include <cstdint>

namespace castor {

enum class SchedulerType : uint8_t {
  kConstant,           // no "scheduler", or type "none"
  kWarmup,             // "WarmupLR": constant after the warm-up
  kWarmupDecay,        // "WarmupDecayLR": linear, to 0 at total_num_steps
  kWarmupCosine,       // "WarmupCosineLR"
  kWarmupInverseSqrt,  // "WarmupInverseSqrtLR", Castor's own
};
enum class WarmupType : uint8_t { kLog, kLinear };

// The keys of scheduler.params in a configuration:
struct SchedulerConfig {
  SchedulerType type = SchedulerType::kConstant;
  int64_t warmup_num_steps = 1000;  // 0: no warm-up
  // "log" as in DeepSpeed; WarmupInverseSqrtLR: "linear".
  WarmupType warmup_type = WarmupType::kLog;
  double warmup_min_lr = 0;  // not WarmupCosineLR
  // Not WarmupCosineLR. Absent: optimizer.params.lr.
  double warmup_max_lr = 0;
  double warmup_min_ratio = 0;    // WarmupCosineLR, of optimizer.params.lr
  double cos_min_ratio = 0.0001;  // WarmupCosineLR
  // WarmupDecayLR, WarmupCosineLR; at least warmup_num_steps. Absent: `steps`,
  // or warmup_num_steps if that is more.
  int64_t total_num_steps = 0;

  friend bool operator==(const SchedulerConfig&,
                         const SchedulerConfig&) = default;
};

// The rate at `step`, from 1. `lr` is optimizer.params.lr. Depends on its
// arguments alone, so a resumed run needs no state of it.
double LearningRate(const SchedulerConfig& scheduler, double lr, int64_t step);

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_LR_SCHEDULE_H_
