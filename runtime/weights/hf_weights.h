// Which tensor of a Hugging Face directory is which of our parameters.
//
// Our names are those of transformers' model with its head:
// "transformer.h.0.ln_1.weight". A model family (models/family.h) says how
// files of the same model may differ from that.
#ifndef CASTOR_RUNTIME_WEIGHTS_HF_WEIGHTS_H_
#define CASTOR_RUNTIME_WEIGHTS_HF_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/weights/safetensors.h"

namespace castor {

// The head of transformers' causal models, the same in all families.
inline constexpr char kHeadName[] = "lm_head.weight";

// How tensors are named in files of one model family.
struct HfNames {
  // A prefix that our names may lack in a file ("transformer."): files of the
  // model without its head are saved so.
  std::string optional_prefix = {};
  // Our name of the token embedding, which is the head, too, where the two are
  // tied. A file may then have it under the head's name (of a tied pair
  // safetensors' save_model keeps the first name of the alphabet alone), or
  // under both.
  std::string embedding = {};
  // Patterns (base/name_pattern.h) of names in a file that may hold
  // no parameter of ours, as saved masks.
  std::vector<std::string> without_parameter = {};
  // Patterns of the names of heads' parameters, ours and files'. Where a model
  // gets another head than its file has (`other_head`), the file may lack some
  // of ours, which begin anew, and have others'.
  std::vector<std::string> heads = {};
  bool other_head = false;
  // How our names may end in a file instead.
  struct Ending {
    std::string ours, old;
  };
  std::vector<Ending> old_endings = {};
};

struct HfParameter {
  std::string name;  // ours
  std::vector<int64_t> shape;
};

// The file's name for each of `parameters`, in their order: what
// SafetensorsModel::ReadFloats takes; "" for one of another head that the file
// lacks. InvalidArgument lists all that is missing, of the wrong shape or
// dtype, or in the file without being known.
absl::StatusOr<std::vector<std::string>> ResolveHfWeights(
    const SafetensorsModel& model, absl::Span<const HfParameter> parameters,
    const HfNames& names);

// Returns whether the file has both a head and a token embedding, and they are
// not the same: a model whose configuration ties them was trained or saved
// without. All values are compared. Errors as of SafetensorsModel::ReadFloats.
absl::StatusOr<bool> HasHeadOfItsOwn(const SafetensorsModel& model,
                                     const HfNames& names);

}  // namespace castor

#endif  // CASTOR_RUNTIME_WEIGHTS_HF_WEIGHTS_H_
