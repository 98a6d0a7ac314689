#include "python/shim/dispatch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "python/shim/session.h"

namespace castor::shim {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
thread_local bool listens = false;

// Operators that read no element of their arguments, only shapes and types.
bool ReadsShapesAlone(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::empty_like",
      "aten::zeros_like",
      "aten::ones_like",
      "aten::full_like",
      "aten::rand_like",
      "aten::randn_like",
      "aten::randint_like",
      "aten::new_empty",
      "aten::new_zeros",
      "aten::new_ones",
      "aten::new_full",
      "aten::size",
      "aten::sym_size",
      "aten::stride",
      "aten::sym_stride",
      "aten::numel",
      "aten::sym_numel",
      "aten::dim",
      "aten::storage_offset",
      "aten::sym_storage_offset",
      "aten::is_same_size",
      "aten::result_type",
      "aten::is_contiguous",
      "aten::is_complex",
      "aten::is_floating_point",
      "aten::is_signed",
      "aten::is_leaf",
      "aten::output_nr",
      "aten::_version",
      "aten::new_empty_strided",
      "aten::requires_grad_",
      "aten::detach_",
      "aten::retain_grad",
      "aten::is_conj",
      "aten::is_neg",
  };
  return names.count(name) != 0;
}

struct Operator {
  enum class Argument { kRead, kAliased, kWritten };
  std::string name;
  bool reads_shapes_alone = false;
  bool makes_views = false;  // and writes nothing
  std::vector<Argument> arguments;
};

Operator Describe(const c10::FunctionSchema& schema) {
  Operator op;
  op.name = schema.name();
  op.reads_shapes_alone = ReadsShapesAlone(op.name);
  bool writes = false;
  for (const c10::Argument& argument : schema.arguments()) {
    const c10::AliasInfo* alias = argument.alias_info();
    if (alias == nullptr) {
      op.arguments.push_back(Operator::Argument::kRead);
    } else if (alias->isWrite()) {
      op.arguments.push_back(Operator::Argument::kWritten);
      writes = true;
    } else {
      op.arguments.push_back(Operator::Argument::kAliased);
      op.makes_views = true;
    }
  }
  if (writes) op.makes_views = false;
  return op;
}

const Operator& OperatorOf(const c10::FunctionSchema& schema) {
  thread_local std::unordered_map<const c10::FunctionSchema*, Operator> known;
  const auto found = known.find(&schema);
  if (found != known.end()) return found->second;
  return known.emplace(&schema, Describe(schema)).first->second;
}

// The managed parameters among an operator's arguments.
struct Found {
  std::vector<int64_t> ids;
  Session* session = nullptr;
  bool all_aliased = true;

  void Look(const at::Tensor& tensor, const Operator& op,
            Operator::Argument argument) {
    const ManagedParameter* managed = ManagedOf(tensor);
    if (managed == nullptr) return;
    Session* owner = managed->session.get();
    const int64_t id = managed->id;
    TORCH_CHECK(argument != Operator::Argument::kWritten, "castor: ", op.name,
                " writes to parameter ", owner->name(id),
                " inside the engine; only engine.step() changes parameters");
    TORCH_CHECK(session == nullptr || session == owner, "castor: ", op.name,
                " reads parameters of two engines");
    session = owner;
    if (argument != Operator::Argument::kAliased) all_aliased = false;
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }

  void Look(const c10::IValue& value, const Operator& op,
            Operator::Argument argument) {
    if (value.isTensor()) {
      Look(value.toTensor(), op, argument);
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      for (const c10::IValue& element : value.toListRef()) {
        if (element.isTensor()) Look(element.toTensor(), op, argument);
      }
    }
  }
};

// Returns true if it sets a tensor to itself, which changes nothing. The
// parametrizations of torch.nn.utils do so.
bool SetsToItself(const Operator& op, const torch::jit::Stack& stack) {
  if (op.name != "aten::set_" || op.arguments.size() != 2) return false;
  const c10::IValue& to = stack[stack.size() - 2];
  const c10::IValue& from = stack.back();
  return to.isTensor() && from.isTensor() &&
         to.toTensor().is_same(from.toTensor());
}

void OnOperator(const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                torch::jit::Stack* stack) {
  const c10::DispatchKeySet rest =
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey);
  const Operator& op = OperatorOf(handle.schema());
  if (SetsToItself(op, *stack)) {
    stack->pop_back();
    return;
  }
  Session* session = Entered();
  if (session != nullptr && !op.reads_shapes_alone) {
    Found found;
    const size_t first = stack->size() - op.arguments.size();
    for (size_t i = 0; i < op.arguments.size(); ++i) {
      found.Look((*stack)[first + i], op, op.arguments[i]);
    }
    if (!found.ids.empty()) {
      if (op.makes_views && found.all_aliased) {
        // Operators that it calls may copy, as contiguous and reshape do; these
        // are seen.
        handle.redispatchBoxed(rest, stack);
        return;
      }
      TORCH_CHECK(found.session == session, "castor: ", op.name,
                  " reads parameter ", found.session->name(found.ids[0]),
                  " of another engine; give castor.initialize one model that "
                  "has both (torch.nn.ModuleDict), and freeze what a step does "
                  "not train");
      session->Use(op.name, found.ids);
    }
  }
  c10::impl::ExcludeDispatchKeyGuard nested(kKey);
  handle.redispatchBoxed(rest, stack);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&OnOperator>());
}

// An operator that does nothing, and reads its arguments as far as OnOperator
// knows. It is called before code that reads them by their addresses
// (castor/_compiled.py), so that all of them are there at once.
TORCH_LIBRARY(castor, m) {
  m.def("compiled_graph(Tensor[] reads) -> ()", [](at::TensorList) {});
}

}  // namespace

void ListenToOperators(bool listen) {
  c10::impl::tls_set_dispatch_key_included(kKey, listen);
  listens = listen;
}

// PyTorch hands the key on to autograd's threads. Transforms such as vmap take
// it from a thread for a while.
bool WorksForListener() {
  return listens || c10::impl::tls_is_dispatch_key_included(kKey);
}

}  // namespace castor::shim
