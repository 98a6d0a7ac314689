#include "tests/model_logits.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "memory/plan/layout/chunk_layout.h"
#include "models/families.h"
#include "models/logits_model.h"
#include "runtime/autograd/engine.h"
#include "runtime/nn/zero_init.h"
#include "runtime/testing/eager_backend.h"

namespace castor::testing {
namespace {

absl::StatusOr<std::vector<float>> Run(
    Engine& engine, models::LogitsModel& model, EagerBackend& backend,
    const ParameterValues& values, const StepShape& shape, MicroBatch batch) {
  for (const auto& parameter : engine.parameters()) {
    CASTOR_ASSIGN_OR_RETURN(const std::vector<float> given, values(*parameter));
    if (static_cast<int64_t>(given.size()) != parameter->elements()) {
      return absl::InvalidArgumentError(
          absl::StrCat(given.size(), " values for ", parameter->name));
    }
    std::vector<float> all = backend.values(parameter->chunk);
    std::copy(given.begin(), given.end(), all.begin() + parameter->offset);
    backend.SetValues(parameter->chunk, std::move(all));
  }
  const Shape sizes = {shape.batch, shape.length};
  RowDocuments rows;
  engine.BeginMicroBatch({});
  const absl::Cleanup leaves = [&engine] { engine.LeaveMicroBatch(); };
  if (shape.documents) {
    CASTOR_RETURN_IF_ERROR(
        SetDocuments(engine, shape, std::move(batch.documents), &rows));
  }
  if (shape.segments) {
    CASTOR_RETURN_IF_ERROR(
        SetSegments(engine, shape, std::move(batch.segments)));
  }
  CASTOR_ASSIGN_OR_RETURN(
      const Tensor input,
      engine.Upload("tokens", sizes, std::move(batch.tokens)));
  CASTOR_ASSIGN_OR_RETURN(const Tensor logits, model.Logits(engine, input));
  const auto* data =
      static_cast<const float*>(backend.data(logits.storage_id()));
  return std::vector<float>(data, data + logits.shape().elements());
}

}  // namespace

absl::StatusOr<std::vector<float>> LogitsOf(const ModelConfig& config,
                                            const ParameterValues& values,
                                            const StepShape& shape,
                                            MicroBatch batch) {
  Engine engine(DType::kFloat32, /*seed=*/1);
  ZeroInit scope(engine);
  const std::unique_ptr<Model> model =
      models::FamilyOf(config).Make(*config.architecture);
  auto* const with_logits = dynamic_cast<models::LogitsModel*>(model.get());
  if (with_logits == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(config.type, " gives no logits"));
  }
  CASTOR_RETURN_IF_ERROR(engine.construction_status());
  std::vector<LayoutParameter> parameters;
  for (const auto& parameter : engine.parameters()) {
    parameters.push_back(
        {.name = parameter->name, .elements = parameter->elements()});
  }
  CASTOR_ASSIGN_OR_RETURN(const ChunkLayout layout,
                          MakeChunkLayout(parameters, {.chunk_bytes = 256}));
  EagerBackend backend(&layout);
  engine.SetBackend(&backend);
  engine.SetLayout(&layout);
  auto logits =
      Run(engine, *with_logits, backend, values, shape, std::move(batch));
  engine.SetBackend(nullptr);
  engine.SetLayout(nullptr);
  return logits;
}

}  // namespace castor::testing
