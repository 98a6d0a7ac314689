// A run of the core with the tensors of a PyTorch model.
//
// A managed parameter keeps its tensor, shape, type and one storage. While it
// is present the storage points at the address that the core gave; while it is
// absent it points at nothing, and reading it is PyTorch's error with our text,
// in every alias. A storage is managed when its deleter is ours.
//
//   state      entered by          operators' uses      allocations count
//   outside    Leave               are errors           no
//   forward    Enter(forward)      castor_use           yes
//   backward   Enter(backward)     castor_use           yes
//
// Between uses the parameters of the last one stay present. An operator whose
// parameters are all among these, in the same phase, is no new use.
//
// Threads: one at a time. Autograd's threads may call while the thread that
// entered waits for them. One session of a process is entered at a time. A
// process that is forked has none of a session's threads: there it is closed,
// and its memory goes with the process.
//
// Errors are c10::Error, which Python sees as RuntimeError. TakeRefusal says
// whether the run had no room.
#ifndef CASTOR_PYTHON_SHIM_SESSION_H_
#define CASTOR_PYTHON_SHIM_SESSION_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/interface/castor_client.h"
#include "python/shim/account.h"
#include "python/shim/core_library.h"
#include "python/shim/forks.h"

namespace castor::shim {

struct ParameterSpec {
  std::string name;
  at::Tensor tensor;
  double weight_decay;  // negative: the configuration's
};

// The fields of castor_checkpoint.
struct Checkpoint {
  std::string path;
  std::optional<std::string> text;
  std::string notes;
  std::string differences;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  // Opens the run. The tensors are not touched yet, and not kept alive.
  // `port_is_stores`: MASTER_PORT is a store of PyTorch's. `place`: the GPU, if
  // the configuration's device is one.
  static std::shared_ptr<Session> Open(const std::string& config_json,
                                       std::vector<ParameterSpec> parameters,
                                       bool port_is_stores,
                                       std::optional<castor_place> place);
  // Returns why the calling thread's last Open had no room; empty where it
  // failed for another reason.
  static std::optional<Refusal> TakeRefusalOfOpen();
  ~Session();

  // Hands the values of `tensor`, parameter `id`, to the run and makes it
  // managed: it gets a new storage of the run's type, and the old one is freed
  // if nobody else has it. On several ranks the values are those of rank
  // `root`; on others the tensor may be put away (kept_apart.h).
  void Adopt(int64_t id, const at::Tensor& tensor, int root);

  void Begin(bool training);
  void Enter(castor_phase phase);
  // Announces inputs: of which kind they are, and their sizes along all
  // dimensions.
  void Announce(const std::string& inputs, const std::vector<int64_t>& extents);
  void Leave();
  // Sets whether allocations count as the device's from now on; Enter sets
  // true, Leave false.
  void CountAllocations(bool count);
  // Hands in all remaining gradients; afterwards no parameter has any.
  void EndBackward();
  // Updates the parameters. A negative rate stands for that of the
  // configuration's schedule.
  void Step(double learning_rate);
  void ExpectRate(double learning_rate);
  void SetDeviceMemory(const std::string& size);
  double LossScale() const;
  int64_t SkippedSteps() const;
  void EndEvaluation();
  // Puts everything back to the beginning of the step; drops gradients.
  void Abort();
  // Closes the run. The parameters are left without values.
  void Close();

  // Between steps: returns the values as a new fp32 tensor of the parameter's
  // shape.
  at::Tensor Values(int64_t id);
  // Between steps: gives a managed parameter other values, rank 0's. Optimizer
  // states stay.
  void SetValues(int64_t id, const at::Tensor& values);
  // Returns every rank's `text`, on all ranks.
  std::vector<std::string> Exchange(const std::string& what,
                                    const std::string& text);
  // See castor_client.h. The client's text is for the caller of LoadCheckpoint
  // to interpret.
  Checkpoint SaveCheckpoint(const std::string& directory,
                            const std::string& text, int64_t keep,
                            int64_t keep_aside, bool lock);
  Checkpoint FindCheckpoint(const std::string& path, bool changed);
  void LoadCheckpoint();
  void Trace(const std::string& path, const std::string& title,
             const std::string& steps);
  void EndTrace() { account_->Check(Core().end_trace(Open())); }
  std::string Dtype() const;
  int64_t MicroBatches() const;
  int Rank() const;
  int WorldSize() const;
  int64_t Steps() const;
  double LearningRate() const;
  double GradientNorm();
  double ScheduledRate(int64_t step) const;
  int64_t Seed() const;
  std::string Summary();
  std::optional<Refusal> TakeRefusal() { return account_->TakeRefusal(); }
  bool TakeAgain() { return account_->TakeAgain(); }
  bool TakeNotFinite() { return account_->TakeNotFinite(); }
  int64_t claimed_bytes() const { return account_->claimed_bytes(); }

  // Called by the dispatcher's fallback: makes the parameters `ids`, in the
  // order in which the operator names them, present, and all others absent.
  void Use(const std::string& op, const std::vector<int64_t>& ids);
  // Called by a parameter's hook: its gradient has been added to.
  void Accumulated(int64_t id);
  // Called by the deleter: no tensor has this parameter's storage any more.
  void Forget(int64_t id) { parameters_[id].storage = nullptr; }

  bool closed() const { return run_ == nullptr || forks_ != ForksSinceStart(); }
  const std::string& name(int64_t id) const { return parameters_[id].name; }

 private:
  struct Parameter {
    std::string name;
    std::vector<int64_t> sizes;
    bool trainable = false;
    bool present = false;
    c10::StorageImpl* storage = nullptr;  // null until Adopt, after Forget
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
  };

  Session(castor_run* run, std::shared_ptr<Account> account,
          std::vector<Parameter> parameters, c10::Device device);
  castor_run* Open() const;
  at::Tensor TensorOf(int64_t id) const;
  // Points a managed storage elsewhere without calling its deleter.
  void Repoint(c10::StorageImpl* storage, void* address) const;
  // Throws if a parameter's tensor has other memory than ours.
  void CheckInPlace() const;
  bool AllPresent(const std::vector<int64_t>& ids) const;
  void Point(int64_t id, void* address);
  void Vacate(int64_t id);
  void VacateAll();
  void HandIn(int64_t id, const at::Tensor& tensor, bool last);
  int64_t Label(const std::string& op, int64_t id);
  // Notes that a graph that saved the earlier values must not be walked any
  // more.
  void ValuesChanged();

  castor_run* run_;  // null after Close
  const int forks_ = ForksSinceStart();
  std::shared_ptr<Account> account_;
  std::vector<Parameter> parameters_;
  at::ScalarType dtype_;
  c10::Device device_;  // where parameters are
  castor_phase phase_ = CASTOR_FORWARD;
  std::vector<int64_t> present_;
  // [first parameter] of each operator.
  std::unordered_map<int64_t, std::unordered_map<std::string, int64_t>> labels_;
  std::vector<void*> addresses_;  // spares Use an allocation
};

// The session that is entered, or null.
Session* Entered();

// If `tensor` is managed, its session (never closed) and number; else null.
struct ManagedParameter {
  std::shared_ptr<Session> session;
  int64_t id;
};
const ManagedParameter* ManagedOf(const at::Tensor& tensor);

}  // namespace castor::shim

#endif  // CASTOR_PYTHON_SHIM_SESSION_H_
