// Directories of models that Castor does not read, and what to do with them.
#ifndef CASTOR_RUNTIME_WEIGHTS_FOREIGN_MODEL_H_
#define CASTOR_RUNTIME_WEIGHTS_FOREIGN_MODEL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace castor {

// Says what `directory` holds in the place of a Hugging Face model: an adapter
// to be merged, a checkpoint of DeepSpeed's, PyTorch's, Megatron's or Castor's
// own, a folder of huggingface_hub's cache. It is told by names alone, and says
// what to do. "": none of these.
std::string ForeignModel(const std::string& directory);

// Says, to follow its name, what a file is that should have weights or a
// configuration and begins with these bytes instead: a git-lfs pointer, a web
// page, a server's answer. "": nothing that this knows.
std::string ForeignFile(absl::string_view beginning);

// Why there is neither model.safetensors nor its index in `directory`, and what
// to do. InvalidArgument: weights are there in another form; ForeignModel's
// text, or a pickle of PyTorch's, which no program should load unasked.
// NotFound: there are none.
absl::Status NoWeights(const std::string& directory);

// Returns whether `directory` has weights, and an adapter of PEFT's beside
// them.
bool HasAdapterBesideWeights(const std::string& directory);

}  // namespace castor

#endif  // CASTOR_RUNTIME_WEIGHTS_FOREIGN_MODEL_H_
