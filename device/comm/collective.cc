#include "device/comm/collective.h"

#include "absl/strings/str_cat.h"

namespace castor {
namespace {

absl::string_view KindName(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllGather:
      return "all-gather";
    case CollectiveKind::kAllToAll:
      return "all-to-all";
    case CollectiveKind::kReduceScatter:
      return "reduce-scatter";
    case CollectiveKind::kAllReduce:
      return "all-reduce";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kBarrier:
      return "barrier";
    case CollectiveKind::kLeave:
      return "leaving the group";
  }
  return "unknown collective";
}

absl::string_view TypeName(ElementType type) {
  switch (type) {
    case ElementType::kBytes:
      return "";
    case ElementType::kInt64:
      return " of int64";
    case ElementType::kFloat32:
      return " of fp32";
    case ElementType::kBFloat16:
      return " of bf16";
    case ElementType::kFloat16:
      return " of fp16";
  }
  return " of an unknown type";
}

absl::string_view OpName(ReduceOp op) {
  switch (op) {
    case ReduceOp::kNone:
      return "";
    case ReduceOp::kSum:
      return " (sum)";
    case ReduceOp::kMin:
      return " (min)";
    case ReduceOp::kMax:
      return " (max)";
  }
  return " (unknown)";
}

}  // namespace

std::string Describe(const CollectiveId& id) {
  if (id.sequence == 0) return "no collective yet";
  std::string text =
      absl::StrCat(KindName(id.kind), OpName(id.op), TypeName(id.type));
  switch (id.kind) {
    case CollectiveKind::kBarrier:
    case CollectiveKind::kLeave:
      break;
    case CollectiveKind::kAllToAll:
      if (id.part_bytes < 0) {
        absl::StrAppend(&text, " with sizes by rank");
        break;
      }
      [[fallthrough]];
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      absl::StrAppend(&text, ", ", id.part_bytes, " bytes per rank,");
      break;
    case CollectiveKind::kAllReduce:
      absl::StrAppend(&text, ", ", id.part_bytes, " bytes,");
      break;
    case CollectiveKind::kBroadcast:
      absl::StrAppend(&text, " from rank ", id.root, ", ", id.part_bytes,
                      " bytes,");
      break;
  }
  absl::StrAppend(&text, " at \"", id.key, "\" (#", id.sequence, ")");
  return text;
}

}  // namespace castor
