// Sentences that rows of several tables of keys have in common.
#ifndef CASTOR_RUN_CONFIG_FOREIGN_FOREIGN_SENTENCES_H_
#define CASTOR_RUN_CONFIG_FOREIGN_FOREIGN_SENTENCES_H_

#include "absl/strings/string_view.h"

namespace castor::foreign_sentences {

inline constexpr absl::string_view kNothing = "it asks for nothing";
inline constexpr absl::string_view kAll = "all of them, as there";
// Reports of a run.
inline constexpr absl::string_view kLog = "castor train prints what it does";
inline constexpr absl::string_view kTrace =
    "castor train --trace FILE records where the time of each step goes";
inline constexpr absl::string_view kTensorBoard =
    "castor train --tensorboard DIR writes a run's figures";
// Memory and computation.
inline constexpr absl::string_view kPlanned =
    "memory.placement_policy \"auto\" plans what is on the device and what on "
    "the host, and all ranks share parameters, gradients and optimizer states";
inline constexpr absl::string_view kKernels = "castor has kernels of its own";
inline constexpr absl::string_view kOneKernel =
    "castor's optimizers have one kernel for each device";
inline constexpr absl::string_view kOptimizers =
    "castor's optimizers are those that optimizer.type names";
inline constexpr absl::string_view kBetas = "a list of both";
inline constexpr absl::string_view kWholeAttention =
    "castor's attention is whole";
inline constexpr absl::string_view kMeanLoss =
    "a step's loss is the mean over its labelled tokens";
inline constexpr absl::string_view kAutocast =
    "parameters and activations have one type, with fp32 master values";
inline constexpr absl::string_view kQuantized = "parameters are not quantized";
// The model and the data.
inline constexpr absl::string_view kHub =
    "castor reads files of this machine and sends nothing";
inline constexpr absl::string_view kModelConfig =
    "the config.json in model.pretrained says what it is";
inline constexpr absl::string_view kLoaders =
    "castor has no processes that load data";

}  // namespace castor::foreign_sentences

#endif  // CASTOR_RUN_CONFIG_FOREIGN_FOREIGN_SENTENCES_H_
