// The functions of libcastor_client.so, found at run time: the shim is compiled
// against PyTorch, the core against neither PyTorch nor Python, and one core
// serves the shims of all versions of PyTorch.
#ifndef CASTOR_PYTHON_SHIM_CORE_LIBRARY_H_
#define CASTOR_PYTHON_SHIM_CORE_LIBRARY_H_

#include <string>

#include "client/interface/castor_client.h"

namespace castor::shim {

#define CASTOR_CORE_FUNCTIONS(X) \
  X(error)                       \
  X(last_refusal)                \
  X(meet)                        \
  X(meeting_rank)                \
  X(meeting_world_size)          \
  X(meeting_broadcast)           \
  X(meeting_end)                 \
  X(plain_config)                \
  X(config_account)              \
  X(config_rates)                \
  X(open)                        \
  X(close)                       \
  X(dtype)                       \
  X(micro_batches)               \
  X(rank)                        \
  X(world_size)                  \
  X(set_values)                  \
  X(get_values)                  \
  X(exchange)                    \
  X(label)                       \
  X(begin)                       \
  X(announce)                    \
  X(use)                         \
  X(gradient)                    \
  X(end_backward)                \
  X(step)                        \
  X(end_evaluation)              \
  X(abort)                       \
  X(save_checkpoint)             \
  X(find_checkpoint)             \
  X(load_checkpoint)             \
  X(trace)                       \
  X(end_trace)                   \
  X(allocate)                    \
  X(free)                        \
  X(use_on)                      \
  X(local_rank)                  \
  X(gpu_allocate)                \
  X(gpu_free)                    \
  X(claim)                       \
  X(release)                     \
  X(set_device_memory)           \
  X(steps)                       \
  X(learning_rate)               \
  X(loss_scale)                  \
  X(skipped_steps)               \
  X(expect_rate)                 \
  X(gradient_norm)               \
  X(scheduled_rate)              \
  X(seed)                        \
  X(generator_seed)              \
  X(summary)                     \
  X(foresee)

// `Core().use` is castor_use, and so on.
struct CoreLibrary {
#define CASTOR_MEMBER(name) decltype(&castor_##name) name = nullptr;
  CASTOR_CORE_FUNCTIONS(CASTOR_MEMBER)
#undef CASTOR_MEMBER
};

// Loads the core from `path`. Throws std::runtime_error with the loader's
// reason, or the name of a function that the library lacks. A second call does
// nothing.
void LoadCore(const std::string& path);

// Call it after LoadCore only.
const CoreLibrary& Core();

}  // namespace castor::shim

#endif  // CASTOR_PYTHON_SHIM_CORE_LIBRARY_H_
