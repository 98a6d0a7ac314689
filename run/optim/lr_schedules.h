// The table of learning-rate schedules (lr_schedule.h), with i = step - 1.
//
// DeepSpeed's, deepspeed/runtime/lr_schedules.py with last_batch_iteration = i.
// W = warmup_num_steps, N = total_num_steps, min = warmup_min_lr, max =
// warmup_max_lr; the warm-up g(i) is 0 at i = 0 and 1 from i = W on, `log`:
// ln(i + 1) / ln W, or `linear`: i / W; W = 1 counts as 2.
//   WarmupLR             min + (max - min) g(i)
//   WarmupDecayLR        i < W: as WarmupLR
//                        else:  min + (max - min) (N - i) / max(1, N - W)
//   WarmupCosineLR       i < W: lr (r + (1 - r) g(i)), r = warmup_min_ratio
//                        else:  lr (c + (1 - c) (1 + cos(pi x)) / 2),
//                               x = (i - W + 1) / (N - W), c = cos_min_ratio
// We differ in two places. DeepSpeed's engine runs one step behind (its first
// two steps both have g = 0). W = 0, which DeepSpeed refuses, is no warm-up.
//   WarmupInverseSqrtLR  i < W: as WarmupLR
//                        else:  max sqrt(max(W, 1) / max(i, 1))
// is Castor's own: Vaswani et al., "Attention is all you need", 2017, section
// 5.3, scaled so that `max` is reached at i = W.
//
// Hugging Face's, transformers/optimization.py, with the warm-up i / W for
// i < W, and from there on, x = (i - W) / max(1, N - W), c = num_cycles:
//   constant, constant_with_warmup   lr
//   linear                           lr (1 - x)
//   cosine                           lr (1 + cos(2 pi c x)) / 2
//   cosine_with_min_lr               min_lr + (lr - min_lr) of that
//   inverse_sqrt                     lr / sqrt((i + s - W) / s), s = timescale
//   polynomial                       lr_end + (lr - lr_end) (1 - x)^power
//   warmup_stable_decay              lr, and in the last num_decay_steps down
//                                    to min_lr_ratio lr
//
// Noam is BMTrain's, bmtrain/lr_scheduler/noam.py with num_iter = i, s =
// start_lr, w = warmup_iter: i <= w: s i / (w sqrt(w)), else s / sqrt(i).
// BMTrain takes end_iter and makes no use of it; so do we.
//
// warmup_exp_decay_exp is that of DeepSpeedExamples' bing_bert ("EE"), with
// global_step = i, T = total_num_steps, p = warmup_proportion: lr_offset + lr
// f, f = (i / (p T))^degree for i < p T, else decay_rate^((i - p T) /
// decay_step); f = 1 for p = 0. Its second phase counts from where it begins:
// from i = restart_step on, i - restart_step stands for i, and restart_lr for
// lr.
#ifndef CASTOR_RUN_OPTIM_LR_SCHEDULES_H_
#define CASTOR_RUN_OPTIM_LR_SCHEDULES_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "run/optim/lr_schedule.h"

namespace castor {

// All schedules; the first is that of a configuration without
// "scheduler.type".
absl::Span<const ScheduleRow> LrSchedules();

// The row of that name; null: there is none.
const ScheduleRow* FindLrSchedule(absl::string_view name);

// The names of all rows, or of Hugging Face's alone.
std::vector<absl::string_view> LrScheduleNames(bool hugging_face_only);

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_LR_SCHEDULES_H_
