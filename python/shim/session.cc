#include "python/shim/session.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <utility>

#include "python/shim/allocator.h"
#include "python/shim/core_library.h"
#include "python/shim/dispatch.h"
#include "python/shim/gpu_memory.h"
#include "python/shim/storage_access.h"

namespace castor::shim {
namespace {

std::atomic<Session*> entered{nullptr};
thread_local std::optional<Refusal> refusal_of_open;

void DeleteManaged(void* context) {
  auto* managed = static_cast<ManagedParameter*>(context);
  managed->session->Forget(managed->id);
  delete managed;
}

// Hands a gradient in when it has come, after the program's own hooks have seen
// it in .grad.
class GradientHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  using Own = std::unique_ptr<torch::autograd::PostAccumulateGradHook>;

  GradientHook(std::shared_ptr<Session> session, int64_t id, Own own)
      : session_(std::move(session)), id_(id), own_(std::move(own)) {}
  void operator()(const at::Tensor& tensor) override {
    if (own_ != nullptr) (*own_)(tensor);
    session_->Accumulated(id_);
  }
  // The program's, of `hook`: null, one of its own, or an earlier engine's.
  static Own OwnIn(Own hook) {
    if (auto* earlier = dynamic_cast<GradientHook*>(hook.get())) {
      return std::move(earlier->own_);
    }
    return hook;
  }
  void compiled_args(
      torch::dynamo::autograd::CompiledNodeArgs&) const override {
    TORCH_CHECK(false,
                "castor: compiled autograd is on, in which gradients do "
                "not come one by one; leave it out "
                "(torch._dynamo.config.compiled_autograd)");
  }

 private:
  std::shared_ptr<Session> session_;
  int64_t id_;
  Own own_;
};

// The type that castor_dtype names.
at::ScalarType TypeOf(const std::string& name) {
  if (name == "fp32") return at::kFloat;
  return name == "bf16" ? at::kBFloat16 : at::kHalf;
}

Checkpoint CopyOf(const castor_checkpoint& from) {
  Checkpoint checkpoint = {.path = from.path,
                           .text = std::nullopt,
                           .notes = from.notes,
                           .differences = from.differences};
  if (from.text != nullptr) checkpoint.text = from.text;
  return checkpoint;
}

}  // namespace

Session* Entered() { return entered.load(std::memory_order_acquire); }

const ManagedParameter* ManagedOf(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage == nullptr) return nullptr;
  return storage->_mutable_data_ptr_no_checks().cast_context<ManagedParameter>(
      &DeleteManaged);
}

Session::Session(castor_run* run, std::shared_ptr<Account> account,
                 std::vector<Parameter> parameters, c10::Device device)
    : run_(run),
      account_(std::move(account)),
      parameters_(std::move(parameters)),
      dtype_(TypeOf(Core().dtype(run))),
      device_(device) {}

void Session::Repoint(c10::StorageImpl* storage, void* address) const {
  c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  void* context = data.release_context();
  storage->set_data_ptr_noswap(
      c10::DataPtr(address, context, &DeleteManaged, device_));
}

void Session::CountAllocations(bool count) {
  if (device_.is_cpu()) {
    CountFor(count ? account_ : nullptr);
  } else {
    AllocateFor(count ? account_ : nullptr, device_.index());
  }
}

std::shared_ptr<Session> Session::Open(const std::string& config_json,
                                       std::vector<ParameterSpec> specs,
                                       bool port_is_stores,
                                       std::optional<castor_place> place) {
  std::vector<castor_parameter> described;
  std::vector<Parameter> parameters;
  for (const ParameterSpec& spec : specs) {
    described.push_back({spec.name.c_str(), spec.tensor.numel(),
                         spec.tensor.requires_grad() ? 1 : 0, spec.weight_decay,
                         spec.tensor.sizes().data(),
                         static_cast<int>(spec.tensor.dim())});
    parameters.push_back({spec.name, spec.tensor.sizes().vec(),
                          spec.tensor.requires_grad(), false, nullptr,
                          c10::weak_intrusive_ptr<c10::TensorImpl>(
                              spec.tensor.getIntrusivePtr())});
  }
  castor_run* run = nullptr;
  const castor_status status =
      Core().open(config_json.c_str(), described.data(),
                  static_cast<int64_t>(described.size()),
                  place ? &*place : nullptr, port_is_stores ? 1 : 0, &run);
  if (status != CASTOR_OK) {
    Account account(nullptr);
    try {
      account.Check(status);
    } catch (...) {
      refusal_of_open = account.TakeRefusal();
      throw;
    }
  }
  auto account = std::make_shared<Account>(run);
  c10::Device device(c10::DeviceType::CPU);
  if (place) {
    device = c10::Device(c10::DeviceType::CUDA,
                         static_cast<c10::DeviceIndex>(place->gpu));
  } else {
    InstallAllocator();
  }
  return std::shared_ptr<Session>(
      new Session(run, std::move(account), std::move(parameters), device));
}

std::optional<Refusal> Session::TakeRefusalOfOpen() {
  return std::exchange(refusal_of_open, std::nullopt);
}

Session::~Session() { Close(); }

void Session::Close() {
  if (closed()) return;
  if (Entered() == this) Leave();
  VacateAll();
  for (const Parameter& parameter : parameters_) {
    if (parameter.storage == nullptr) continue;
    ForbidAccess(*parameter.storage,
                 "castor: the values of parameter " + parameter.name +
                     " went with its engine, which is closed; call "
                     "engine.close(keep_values=True) while it is open, and the "
                     "model keeps them");
  }
  account_->Close();
  Core().close(std::exchange(run_, nullptr));
  if (device_.is_cpu()) RemoveAllocator();
}

castor_run* Session::Open() const {
  TORCH_CHECK(forks_ == ForksSinceStart(),
              "castor: this process was forked from the one that has the "
              "engine; use the engine there, and give a forked process "
              "tensors, not the model");
  TORCH_CHECK(run_ != nullptr, "castor: this engine is closed");
  return run_;
}

at::Tensor Session::TensorOf(int64_t id) const {
  auto tensor = parameters_[id].tensor.lock();
  return tensor ? at::Tensor(std::move(tensor)) : at::Tensor();
}

void Session::Adopt(int64_t id, const at::Tensor& tensor, int root) {
  Parameter& parameter = parameters_[id];
  {
    at::Tensor values;
    if (root == Rank()) values = tensor.detach().to(at::kFloat).contiguous();
    account_->Check(Core().set_values(
        Open(), id, values.defined() ? values.const_data_ptr<float>() : nullptr,
        root));
  }
  auto* managed = new ManagedParameter{shared_from_this(), id};
  c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      tensor.numel() * static_cast<int64_t>(c10::elementSize(dtype_)),
      c10::DataPtr(nullptr, managed, &DeleteManaged, device_),
      /*allocator=*/nullptr, /*resizable=*/false));
  parameter.storage = storage.unsafeGetStorageImpl();
  Vacate(id);
  at::Tensor held = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage),
      c10::DispatchKeySet(device_.is_cpu() ? c10::DispatchKey::CPU
                                           : c10::DispatchKey::CUDA),
      c10::scalarTypeToTypeMeta(dtype_));
  held.unsafeGetTensorImpl()->set_sizes_contiguous(tensor.sizes());
  tensor.mutable_grad().reset();
  tensor.set_data(held);
  if (parameter.trainable) {
    GradientHook::Own own = GradientHook::OwnIn(
        std::move(torch::autograd::impl::post_acc_grad_hooks(tensor)));
    torch::autograd::impl::set_post_acc_grad_hooks(
        tensor,
        std::make_unique<GradientHook>(shared_from_this(), id, std::move(own)));
  }
}

void Session::Point(int64_t id, void* address) {
  Parameter& parameter = parameters_[id];
  if (parameter.storage == nullptr) return;
  AllowAccess(*parameter.storage);
  Repoint(parameter.storage, address);
  parameter.present = true;
}

void Session::Vacate(int64_t id) {
  Parameter& parameter = parameters_[id];
  parameter.present = false;
  if (parameter.storage == nullptr) return;
  Repoint(parameter.storage, nullptr);
  ForbidAccess(
      *parameter.storage,
      "castor: parameter " + parameter.name +
          " is not on the device now: it is there for operators within "
          "engine(...) and engine.backward(loss), and engine.state_dict() has "
          "its values");
}

void Session::VacateAll() {
  for (int64_t id : present_) Vacate(id);
  present_.clear();
}

void Session::CheckInPlace() const {
  for (size_t id = 0; id < parameters_.size(); ++id) {
    const at::Tensor tensor = TensorOf(static_cast<int64_t>(id));
    if (!tensor.defined()) continue;  // it has left the model
    const ManagedParameter* managed = ManagedOf(tensor);
    TORCH_CHECK(managed != nullptr && managed->session.get() == this &&
                    managed->id == static_cast<int64_t>(id) &&
                    tensor.sizes() == parameters_[id].sizes,
                "castor: parameter ", parameters_[id].name,
                " was changed behind the engine's back (its .data was "
                "assigned); engine.state_dict() has the engine's values: close "
                "the engine, load what you want into the model and initialize "
                "again");
  }
}

void Session::Begin(bool training) {
  VacateAll();
  CheckInPlace();
  account_->Check(Core().begin(Open(), training ? 1 : 0));
}

void Session::Enter(castor_phase phase) {
  Open();
  Session* nobody = nullptr;
  TORCH_CHECK(entered.compare_exchange_strong(nobody, this),
              "castor: an engine computes already; engines of a process take "
              "turns, and a model with an engine cannot be part of another's");
  phase_ = phase;
  CountAllocations(true);
  ListenToOperators(true);
}

void Session::Leave() {
  ListenToOperators(false);
  CountAllocations(false);
  VacateAll();
  entered.store(nullptr, std::memory_order_release);
}

bool Session::AllPresent(const std::vector<int64_t>& ids) const {
  for (int64_t id : ids) {
    if (!parameters_[id].present) return false;
  }
  return true;
}

int64_t Session::Label(const std::string& op, int64_t id) {
  auto [found, is_new] = labels_[id].try_emplace(op, 0);
  if (is_new) {
    const std::string label = op + "(" + parameters_[id].name + ")";
    found->second = Core().label(run_, label.c_str());
  }
  return found->second;
}

void Session::Use(const std::string& op, const std::vector<int64_t>& ids) {
  if (AllPresent(ids)) return;
  VacateAll();
  addresses_.assign(ids.size(), nullptr);
  account_->Check(Core().use(Open(), Label(op, ids[0]), phase_, ids.data(),
                             static_cast<int64_t>(ids.size()),
                             addresses_.data()));
  for (size_t i = 0; i < ids.size(); ++i) Point(ids[i], addresses_[i]);
  present_ = ids;
}

void Session::Announce(const std::string& inputs,
                       const std::vector<int64_t>& extents) {
  VacateAll();
  account_->Check(Core().announce(Open(), Core().label(Open(), inputs.c_str()),
                                  phase_, extents.data(),
                                  static_cast<int64_t>(extents.size())));
}

void Session::HandIn(int64_t id, const at::Tensor& tensor, bool last) {
  at::Tensor& grad = tensor.mutable_grad();
  if (!grad.defined()) return;
  TORCH_CHECK(grad.layout() == at::kStrided, "castor: the gradient of ",
              parameters_[id].name,
              " is sparse; make its layer with sparse=False");
  int taken = 0;
  {
    const at::Tensor values = grad.detach().to(dtype_).contiguous();
    account_->Check(Core().gradient(Open(), id, values.const_data_ptr(),
                                    last ? 1 : 0, &taken));
  }
  if (taken == 0) return;
  grad.reset();
  if (parameters_[id].present) Vacate(id);
}

void Session::Accumulated(int64_t id) {
  if (closed()) return;
  TORCH_CHECK(Entered() == this && phase_ == CASTOR_BACKWARD,
              "castor: a gradient of ", parameters_[id].name,
              " comes from outside the engine; call engine.backward(loss)");
  const at::Tensor tensor = TensorOf(id);
  if (tensor.defined()) HandIn(id, tensor, /*last=*/false);
}

void Session::EndBackward() {
  VacateAll();
  CheckInPlace();
  for (size_t id = 0; id < parameters_.size(); ++id) {
    if (!parameters_[id].trainable) continue;
    const at::Tensor tensor = TensorOf(static_cast<int64_t>(id));
    if (!tensor.defined()) continue;
    HandIn(static_cast<int64_t>(id), tensor, /*last=*/true);
  }
  account_->Check(Core().end_backward(Open()));
}

void Session::Step(double learning_rate) {
  VacateAll();
  account_->Check(Core().step(Open(), learning_rate));
  ValuesChanged();
}

void Session::ValuesChanged() {
  for (size_t id = 0; id < parameters_.size(); ++id) {
    if (!parameters_[id].trainable) continue;
    const at::Tensor tensor = TensorOf(static_cast<int64_t>(id));
    if (tensor.defined()) torch::autograd::impl::bump_version(tensor);
  }
}

void Session::EndEvaluation() {
  VacateAll();
  account_->Check(Core().end_evaluation(Open()));
}

void Session::Abort() {
  if (Entered() == this) Leave();
  VacateAll();
  for (size_t id = 0; id < parameters_.size(); ++id) {
    const at::Tensor tensor = TensorOf(static_cast<int64_t>(id));
    if (tensor.defined()) tensor.mutable_grad().reset();
  }
  account_->Check(Core().abort(Open()));
}

at::Tensor Session::Values(int64_t id) {
  at::Tensor values = at::empty(parameters_[id].sizes, at::kFloat);
  account_->Check(
      Core().get_values(Open(), id, values.mutable_data_ptr<float>()));
  return values;
}

void Session::SetValues(int64_t id, const at::Tensor& values) {
  TORCH_CHECK(values.sizes() == at::IntArrayRef(parameters_[id].sizes),
              "castor: parameter ", parameters_[id].name,
              " has another shape than its new values");
  const at::Tensor plain = values.detach().to(at::kFloat).contiguous();
  account_->Check(
      Core().set_values(Open(), id, plain.const_data_ptr<float>(), 0));
  const at::Tensor tensor = TensorOf(id);
  if (tensor.defined()) torch::autograd::impl::bump_version(tensor);
}

std::vector<std::string> Session::Exchange(const std::string& what,
                                           const std::string& text) {
  std::vector<const char*> texts(WorldSize());
  account_->Check(
      Core().exchange(Open(), what.c_str(), text.c_str(), texts.data()));
  return {texts.begin(), texts.end()};
}

Checkpoint Session::SaveCheckpoint(const std::string& directory,
                                   const std::string& text, int64_t keep,
                                   int64_t keep_aside, bool lock) {
  castor_checkpoint saved;
  account_->Check(Core().save_checkpoint(Open(), directory.c_str(),
                                         text.c_str(), keep, keep_aside,
                                         lock ? 1 : 0, &saved));
  return CopyOf(saved);
}

Checkpoint Session::FindCheckpoint(const std::string& path, bool changed) {
  castor_checkpoint found;
  account_->Check(
      Core().find_checkpoint(Open(), path.c_str(), changed ? 1 : 0, &found));
  return CopyOf(found);
}

void Session::LoadCheckpoint() {
  account_->Check(Core().load_checkpoint(Open()));
  ValuesChanged();
}

void Session::Trace(const std::string& path, const std::string& title,
                    const std::string& steps) {
  account_->Check(
      Core().trace(Open(), path.c_str(), title.c_str(), steps.c_str()));
}

std::string Session::Dtype() const { return Core().dtype(Open()); }
int64_t Session::MicroBatches() const { return Core().micro_batches(Open()); }
int Session::Rank() const { return Core().rank(Open()); }
int Session::WorldSize() const { return Core().world_size(Open()); }
int64_t Session::Steps() const { return Core().steps(Open()); }
void Session::ExpectRate(double learning_rate) {
  Core().expect_rate(Open(), learning_rate);
}

void Session::SetDeviceMemory(const std::string& size) {
  account_->Check(Core().set_device_memory(Open(), size.c_str()));
}

int64_t Session::SkippedSteps() const { return Core().skipped_steps(Open()); }
double Session::LossScale() const { return Core().loss_scale(Open()); }
double Session::LearningRate() const { return Core().learning_rate(Open()); }
double Session::GradientNorm() {
  double norm = 0;
  account_->Check(Core().gradient_norm(Open(), &norm));
  return norm;
}

double Session::ScheduledRate(int64_t step) const {
  return Core().scheduled_rate(Open(), step);
}
int64_t Session::Seed() const { return Core().seed(Open()); }

std::string Session::Summary() {
  const char* summary = Core().summary(Open());
  return summary != nullptr ? summary : "{}";
}

}  // namespace castor::shim
