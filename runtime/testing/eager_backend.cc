#include "runtime/testing/eager_backend.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace castor::testing {

EagerBackend::EagerBackend(const ChunkLayout* layout) {
  CASTOR_CHECK(layout->dtype == DType::kFloat32);
  for (const ChunkSpec& chunk : layout->chunks) {
    values_.emplace_back(chunk.elements, std::nanf(""));
  }
  payloads_ = values_;
  gradients_.resize(values_.size());
}

void EagerBackend::SetValues(ChunkId chunk, std::vector<float> values) {
  CASTOR_CHECK(values.size() == values_[chunk.value].size());
  payloads_[chunk.value] = values;
  values_[chunk.value] = std::move(values);
}

int64_t EagerBackend::Allocate(int64_t bytes) {
  auto storage = std::make_unique<std::byte[]>(bytes);
  std::memset(storage.get(), 0xff, bytes);
  storages_.push_back(std::move(storage));
  ++live_;
  return static_cast<int64_t>(storages_.size()) - 1;
}

void EagerBackend::Release(int64_t storage_id) {
  CASTOR_CHECK(storages_[storage_id] != nullptr);
  storages_[storage_id].reset();
  // All gone: numbers start anew, so that long series stay small.
  if (--live_ == 0) storages_.clear();
}

absl::StatusOr<absl::InlinedVector<int64_t, 4>> EagerBackend::Run(
    BackendOp op) {
  ops_.push_back(op.name);
  Pointers pointers;
  for (const Operand& operand : op.operands) {
    pointers.operands.push_back(
        operand.storage_id >= 0 ? storages_[operand.storage_id].get()
                                : reinterpret_cast<std::byte*>(
                                      payloads_[operand.chunk.value].data()) +
                                      operand.byte_offset);
  }
  absl::InlinedVector<int64_t, 4> outputs;
  for (const OutputRequest& output : op.outputs) {
    outputs.push_back(Allocate(output.bytes));
    pointers.outputs.push_back(storages_[outputs.back()].get());
  }
  std::unique_ptr<std::byte[]> workspace;
  if (op.workspace_bytes > 0) {
    workspace = std::make_unique<std::byte[]>(op.workspace_bytes);
    std::memset(workspace.get(), 0xff, op.workspace_bytes);
    pointers.workspace = workspace.get();
  }
  const absl::Status status = op.kernel(pointers, ExecContext{&pool_});
  if (status.ok()) return outputs;
  for (int64_t storage : outputs) Release(storage);
  return absl::Status(status.code(),
                      absl::StrCat(op.name, ": ", status.message()));
}

absl::StatusOr<int64_t> EagerBackend::Upload(std::string name, HostData data) {
  ops_.push_back(std::move(name));
  const int64_t storage = Allocate(data.bytes());
  std::memcpy(storages_[storage].get(), data.Get().get(), data.bytes());
  return storage;
}

absl::StatusOr<int64_t> EagerBackend::Hold(std::string, int64_t bytes) {
  return Allocate(bytes);
}

absl::Status EagerBackend::Reduce(ChunkReduce op) {
  ops_.push_back(std::move(op.name));
  const int64_t i = op.chunk.value;
  if (op.micro_batch == 0) {
    gradients_[i] = payloads_[i];
  } else {
    for (size_t k = 0; k < gradients_[i].size(); ++k) {
      gradients_[i][k] += payloads_[i][k];
    }
  }
  payloads_[i] = values_[i];
  return absl::OkStatus();
}

absl::Status EagerBackend::Update(ChunkUpdate op) {
  ops_.push_back(std::move(op.name));
  return absl::OkStatus();
}

}  // namespace castor::testing
