// The passes of a trainer that trains nothing, over a sequence whose next token
// is wanted.
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/with_type.h"
#include "runtime/train/trainer.h"

namespace castor {

absl::StatusOr<std::vector<float>> Trainer::TryPass(
    Program& program, std::vector<int32_t> tokens) {
  BeginTag(program, /*training_step=*/0);
  CASTOR_RETURN_IF_ERROR(backend_->BeginStep(
      {.trace = &program.trace, .plan = program.plan, .tag = tag_step_}));
  std::vector<std::byte> bytes;
  Fence arrived;
  DType dtype = DType::kFloat32;
  {
    CASTOR_ASSIGN_OR_RETURN(
        const Tensor logits,
        RunPass(*engine_, *model_, *cache_, std::move(tokens)));
    dtype = logits.dtype();
    bytes.resize(logits.shape().elements() * SizeOf(dtype));
    arrived = backend_->Download(logits.storage_id(), bytes.data(),
                                 static_cast<int64_t>(bytes.size()));
  }
  const absl::Status ended = backend_->EndStep();
  // The copy goes into `bytes`, whatever went wrong.
  const absl::Status arrival = device_->Synchronize(arrived);
  CASTOR_RETURN_IF_ERROR(ended);
  CASTOR_RETURN_IF_ERROR(arrival);
  std::vector<float> values(bytes.size() / SizeOf(dtype));
  WithType(dtype, [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) {
      T value;
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      values[i] = static_cast<float>(value);
    }
  });
  return values;
}

absl::StatusOr<std::vector<float>> Trainer::ReadOn(
    std::vector<int32_t> tokens) {
  if (!cache_.has_value()) {
    return absl::FailedPreconditionError(
        "nothing can be generated: set TrainerOptions::shape.cache");
  }
  CASTOR_RETURN_IF_ERROR(CheckInitialized("a pass"));
  CASTOR_RETURN_IF_ERROR(failure_);
  const bool first = cache_->length() == 0;
  const StepShape shape = first ? options_.shape : next_token_shape();
  if (static_cast<int64_t>(tokens.size()) != shape.length) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pass of ", tokens.size(), " tokens, where ",
                     shape.length, " were planned for"));
  }
  if (cache_->length() + shape.length > cache_->capacity()) {
    return absl::OutOfRangeError(
        absl::StrCat("the key-value cache is full: it has room for ",
                     cache_->capacity(), " positions"));
  }
  CASTOR_ASSIGN_OR_RETURN(Program* const program, ProgramFor(shape));
  CASTOR_RETURN_IF_ERROR(PlanEvaluation(*program));
  auto logits = TryPass(*program, std::move(tokens));
  if (!logits.ok()) failure_.Update(Failed(logits.status()));
  return logits;
}

}  // namespace castor
