// The Python module: Session under the name Run, and Refusal.
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python/shim/allocator.h"
#include "python/shim/core_library.h"
#include "python/shim/gpu_memory.h"
#include "python/shim/kept_apart.h"
#include "python/shim/meeting.h"
#include "python/shim/session.h"

namespace castor::shim {
namespace {

namespace py = pybind11;
using Release = py::call_guard<py::gil_scoped_release>;

// Owns a run for Python: the run ends with it, whoever still has tensors of it.
struct Run {
  explicit Run(std::shared_ptr<Session> opened) : session(std::move(opened)) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() { session->Close(); }
  std::shared_ptr<Session> session;
};

std::unique_ptr<Run> Open(
    const std::string& config,
    const std::vector<std::tuple<std::string, at::Tensor, double>>& all,
    bool port_is_stores, std::optional<std::pair<int, uint64_t>> place) {
  std::vector<ParameterSpec> specs;
  for (const auto& [name, tensor, weight_decay] : all) {
    specs.push_back({name, tensor, weight_decay});
  }
  std::optional<castor_place> given;
  if (place) {
    given = {place->first, reinterpret_cast<void*>(place->second)};
  }
  return std::make_unique<Run>(
      Session::Open(config, std::move(specs), port_is_stores, given));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("take_refusal_of_open", &Session::TakeRefusalOfOpen);
  m.def("load_core", &LoadCore);
  m.def("plain_config", [](const std::string& text) {
    const char* plain = Core().plain_config(text.c_str());
    TORCH_CHECK(plain != nullptr, Core().error());
    return std::string(plain);
  });
  m.def("config_account", [](const std::string& text) {
    const char* account = Core().config_account(text.c_str());
    TORCH_CHECK(account != nullptr, Core().error());
    return std::string(account);
  });
  m.def("config_rates",
        [](const std::string& text, int64_t first, int64_t count) {
          std::vector<double> rates(std::max<int64_t>(count, 0));
          TORCH_CHECK(Core().config_rates(text.c_str(), first, count,
                                          rates.data()) == CASTOR_OK,
                      Core().error());
          return rates;
        });
  m.def("generator_seed",
        [](int64_t seed, int64_t step, int64_t micro_batch, int64_t call) {
          return Core().generator_seed(seed, step, micro_batch, call);
        });
  m.def("local_rank", [] {
    int local_rank = -1;
    TORCH_CHECK_VALUE(Core().local_rank(&local_rank) == CASTOR_OK,
                      Core().error());
    return local_rank;
  });
  m.def("use_on_address",
        [] { return reinterpret_cast<uint64_t>(&castor_cuda_use_on); });
  m.def("is_managed",
        [](const at::Tensor& tensor) { return ManagedOf(tensor) != nullptr; });
  m.def("count_for_entered", [](bool counts) {
    if (Session* session = Entered()) session->CountAllocations(counts);
  });
  m.def("is_entered", [] { return Entered() != nullptr; });
  m.def(
      "foresee",
      [](const std::string& config,
         const std::vector<
             std::tuple<std::string, std::vector<int64_t>, bool, double>>& all,
         const std::string& pass, int world_size) {
        std::vector<castor_parameter> described;
        for (const auto& [name, shape, trainable, decay] : all) {
          int64_t elements = 1;
          for (const int64_t size : shape) elements *= size;
          described.push_back({name.c_str(), elements, trainable ? 1 : 0, decay,
                               shape.data(), static_cast<int>(shape.size())});
        }
        const char* foreseen = Core().foresee(
            config.c_str(), described.data(),
            static_cast<int64_t>(described.size()), pass.c_str(), world_size);
        TORCH_CHECK_VALUE(foreseen != nullptr, Core().error());
        return std::string(foreseen);
      });
  py::class_<Nursery, std::shared_ptr<Nursery>>(m, "Nursery")
      .def(py::init<>())
      .def("open",
           [](const std::shared_ptr<Nursery>& nursery) {
             InstallAllocator();
             MakeModelIn(nursery);
           })
      .def("close",
           [](const std::shared_ptr<Nursery>&) {
             MakeModelIn(nullptr);
             RemoveAllocator();
           })
      .def_property_readonly("live_bytes", &Nursery::live_bytes)
      .def_property_readonly("peak_bytes", &Nursery::peak_bytes);
  m.def("put_away", &PutAway);
  m.def("bring_back", &BringBack);
  py::class_<Meeting>(m, "Meeting")
      .def(py::init<bool>(), Release())
      .def_property_readonly("rank", &Meeting::rank)
      .def_property_readonly("world_size", &Meeting::world_size)
      .def("broadcast", &Meeting::Broadcast, Release())
      .def("end", &Meeting::End, Release());
  py::class_<Refusal>(m, "Refusal")
      .def_readonly("message", &Refusal::message)
      .def_readonly("operator", &Refusal::op)
      .def_readonly("peak_bytes", &Refusal::peak_bytes)
      .def_readonly("resident_bytes", &Refusal::resident_bytes)
      .def_readonly("smallest_device_budget_bytes",
                    &Refusal::smallest_device_budget_bytes)
      .def_readonly("exact", &Refusal::exact);
  py::class_<Checkpoint>(m, "Checkpoint")
      .def_readonly("path", &Checkpoint::path)
      .def_readonly("text", &Checkpoint::text)
      .def_readonly("notes", &Checkpoint::notes)
      .def_readonly("differences", &Checkpoint::differences);
  py::class_<Run>(m, "Run")
      .def(py::init(&Open))
      .def(
          "adopt",
          [](Run& run, int64_t id, const at::Tensor& tensor, int root) {
            run.session->Adopt(id, tensor, root);
          },
          Release())
      .def(
          "begin",
          [](Run& run, bool training) { run.session->Begin(training); },
          Release())
      .def("enter_forward",
           [](Run& run) { run.session->Enter(CASTOR_FORWARD); })
      .def("enter_backward",
           [](Run& run) { run.session->Enter(CASTOR_BACKWARD); })
      .def(
          "announce",
          [](Run& run, const std::string& inputs,
             const std::vector<int64_t>& extents) {
            run.session->Announce(inputs, extents);
          },
          Release())
      .def("leave", [](Run& run) { run.session->Leave(); })
      .def(
          "end_backward", [](Run& run) { run.session->EndBackward(); },
          Release())
      .def(
          "step",
          [](Run& run, double learning_rate) {
            run.session->Step(learning_rate);
          },
          Release())
      .def("expect_rate",
           [](Run& run, double learning_rate) {
             run.session->ExpectRate(learning_rate);
           })
      .def(
          "set_device_memory",
          [](Run& run, const std::string& size) {
            run.session->SetDeviceMemory(size);
          },
          Release())
      .def(
          "end_evaluation", [](Run& run) { run.session->EndEvaluation(); },
          Release())
      .def(
          "abort", [](Run& run) { run.session->Abort(); }, Release())
      .def(
          "close", [](Run& run) { run.session->Close(); }, Release())
      .def(
          "values",
          [](Run& run, int64_t id) { return run.session->Values(id); },
          Release())
      .def(
          "set_values",
          [](Run& run, int64_t id, const at::Tensor& values) {
            run.session->SetValues(id, values);
          },
          Release())
      .def(
          "exchange",
          [](Run& run, const std::string& what, const std::string& text) {
            return run.session->Exchange(what, text);
          },
          Release())
      .def(
          "save_checkpoint",
          [](Run& run, const std::string& directory, const std::string& text,
             int64_t keep, int64_t keep_aside, bool lock) {
            return run.session->SaveCheckpoint(directory, text, keep,
                                               keep_aside, lock);
          },
          Release())
      .def(
          "find_checkpoint",
          [](Run& run, const std::string& path, bool changed) {
            return run.session->FindCheckpoint(path, changed);
          },
          Release())
      .def(
          "load_checkpoint", [](Run& run) { run.session->LoadCheckpoint(); },
          Release())
      .def(
          "trace",
          [](Run& run, const std::string& path, const std::string& title,
             const std::string& steps) {
            run.session->Trace(path, title, steps);
          },
          Release())
      .def(
          "end_trace", [](Run& run) { run.session->EndTrace(); }, Release())
      .def("take_again", [](Run& run) { return run.session->TakeAgain(); })
      .def("take_not_finite",
           [](Run& run) { return run.session->TakeNotFinite(); })
      .def_property_readonly(
          "claimed_bytes",
          [](Run& run) { return run.session->claimed_bytes(); })
      .def("take_refusal", [](Run& run) { return run.session->TakeRefusal(); })
      .def_property_readonly("closed",
                             [](Run& run) { return run.session->closed(); })
      .def_property_readonly("dtype",
                             [](Run& run) { return run.session->Dtype(); })
      .def_property_readonly(
          "micro_batches", [](Run& run) { return run.session->MicroBatches(); })
      .def(
          "gradient_norm", [](Run& run) { return run.session->GradientNorm(); },
          Release())
      .def_property_readonly("rank",
                             [](Run& run) { return run.session->Rank(); })
      .def_property_readonly("world_size",
                             [](Run& run) { return run.session->WorldSize(); })
      .def("scheduled_rate",
           [](Run& run, int64_t step) {
             return run.session->ScheduledRate(step);
           })
      .def_property_readonly("seed",
                             [](Run& run) { return run.session->Seed(); })
      .def_property_readonly("steps",
                             [](Run& run) { return run.session->Steps(); })
      .def_property_readonly(
          "skipped_steps", [](Run& run) { return run.session->SkippedSteps(); })
      .def_property_readonly("loss_scale",
                             [](Run& run) { return run.session->LossScale(); })
      .def_property_readonly(
          "learning_rate", [](Run& run) { return run.session->LearningRate(); })
      .def("summary", [](Run& run) { return run.session->Summary(); });
}

}  // namespace
}  // namespace castor::shim
