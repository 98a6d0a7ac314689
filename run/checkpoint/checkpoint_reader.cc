#include "run/checkpoint/checkpoint_reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/enough_memory.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "run/checkpoint/checkpoint_format.h"
#include "run/checkpoint/checkpoint_parts.h"

namespace castor {

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(
    std::string path) {
  std::unique_ptr<CheckpointReader> reader(
      new CheckpointReader(std::move(path)));
  CASTOR_RETURN_IF_ERROR(IfMemoryAllows(reader->path_, [&]() -> absl::Status {
    struct stat info;
    if (stat(reader->path_.c_str(), &info) != 0) {
      return absl::ErrnoToStatus(
          errno, absl::StrCat("cannot open the checkpoint ", reader->path_));
    }
    CASTOR_RETURN_IF_ERROR(S_ISDIR(info.st_mode) ? reader->OpenDirectory()
                                                 : reader->OpenFile());
    return reader->Assemble();
  }));
  return reader;
}

absl::Status CheckpointReader::Damaged(absl::string_view what) const {
  return absl::DataLossError(
      absl::StrCat(path_, " is not a whole Castor checkpoint: ", what,
                   ". Resume from an earlier one."));
}

absl::Status CheckpointReader::OpenFile() {
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointFile> file,
                          CheckpointFile::Open(path_));
  if (ParsePartIdentity(file->metadata()).ok() ||
      ParseMarker(file->metadata()).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_,
                     " is one file of a checkpoint of several ranks: name the "
                     "directory that it is in"));
  }
  metadata_ = file->metadata();
  for (const CheckpointPiece& piece : file->pieces()) {
    if (!piece.whole()) {
      return file->Damaged(absl::StrCat(
          "of ", DescribeTensor(piece.name, piece.kind), " it has ",
          piece.elements, " of ", piece.total, " elements"));
    }
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status CheckpointReader::OpenDirectory() {
  const auto marker =
      CheckpointFile::Open(absl::StrCat(path_, "/", kMarkerName));
  if (absl::IsNotFound(marker.status())) {
    return Damaged(absl::StrCat(
        "it is a directory without ", kMarkerName,
        ", which is written last: it was never completed, or is none"));
  }
  CASTOR_RETURN_IF_ERROR(marker.status());
  const auto parsed = ParseMarker((*marker)->metadata());
  if (!parsed.ok()) return (*marker)->Damaged(parsed.status().message());
  if (!(*marker)->pieces().empty()) {
    return (*marker)->Damaged("it has tensors, which no marker has");
  }
  metadata_ = parsed->metadata;
  const int world_size = static_cast<int>(parsed->parts.size());
  for (int rank = 0; rank < world_size; ++rank) {
    CASTOR_ASSIGN_OR_RETURN(
        std::unique_ptr<CheckpointFile> part,
        OpenPart(path_, {parsed->save_id, rank, world_size}));
    const CheckpointMarker::Part is = {part->size_bytes(), part->seal()};
    if (is != parsed->parts[rank]) {
      return part->Damaged("it is not the file that the marker was made for");
    }
    files_.push_back(std::move(part));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::Assemble() {
  for (int f = 0; f < static_cast<int>(files_.size()); ++f) {
    const std::vector<CheckpointPiece>& pieces = files_[f]->pieces();
    for (int64_t p = 0; p < static_cast<int64_t>(pieces.size()); ++p) {
      const CheckpointPiece& piece = pieces[p];
      const auto [entry, is_new] =
          by_key_.emplace(TensorKey(piece.name, piece.kind),
                          static_cast<int64_t>(tensors_.size()));
      if (is_new) {
        tensors_.push_back({piece.name, piece.kind, piece.total});
        places_.emplace_back();
      }
      places_[entry->second].push_back({piece.begin, f, p});
    }
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    CASTOR_RETURN_IF_ERROR(AssembleTensor(tensors_[i], places_[i]));
  }
  if (files_.size() == 1) return absl::OkStatus();
  // Tensors are put into the order in which one rank writes them, whichever
  // part had one first.
  std::vector<int64_t> order(tensors_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::tie(tensors_[a].name, tensors_[a].kind) <
           std::tie(tensors_[b].name, tensors_[b].kind);
  });
  std::vector<CheckpointTensor> tensors;
  std::vector<std::vector<Place>> places;
  for (const int64_t i : order) {
    by_key_[TensorKey(tensors_[i].name, tensors_[i].kind)] =
        static_cast<int64_t>(tensors.size());
    tensors.push_back(std::move(tensors_[i]));
    places.push_back(std::move(places_[i]));
  }
  tensors_ = std::move(tensors);
  places_ = std::move(places);
  return absl::OkStatus();
}

absl::Status CheckpointReader::AssembleTensor(
    const CheckpointTensor& tensor, std::vector<Place>& places) const {
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::tie(a.begin, a.file) < std::tie(b.begin, b.file);
  });
  const std::string what = DescribeTensor(tensor.name, tensor.kind);
  const auto gap = [&](int64_t begin, int64_t end) {
    return Damaged(absl::StrCat("elements [", begin, ", ", end, ") of ", what,
                                " are in no part"));
  };
  int64_t at = 0;
  const CheckpointFile* before = nullptr;
  for (const Place& place : places) {
    const CheckpointFile& file = *files_[place.file];
    const CheckpointPiece& piece = PieceAt(place);
    if (piece.total != tensor.elements) {
      return file.Damaged(absl::StrCat(what, " has ", piece.total,
                                       " elements here, elsewhere ",
                                       tensor.elements));
    }
    if (piece.begin > at) return gap(at, piece.begin);
    if (piece.begin < at || (piece.elements == 0 && before != nullptr)) {
      return file.Damaged(absl::StrCat("elements from ", piece.begin, " of ",
                                       what, " are in ", before->path(),
                                       " too"));
    }
    at = piece.end();
    before = &file;
  }
  return at == tensor.elements ? absl::OkStatus() : gap(at, tensor.elements);
}

const CheckpointTensor* CheckpointReader::Find(absl::string_view name,
                                               StatePart kind) const {
  const auto found = by_key_.find(TensorKey(name, kind));
  return found == by_key_.end() ? nullptr : &tensors_[found->second];
}

absl::Status CheckpointReader::Read(absl::string_view name, StatePart kind,
                                    int64_t begin, int64_t end, float* out) {
  const auto found = by_key_.find(TensorKey(name, kind));
  if (found == by_key_.end()) {
    return absl::NotFoundError(
        absl::StrCat(path_, " holds no ", DescribeTensor(name, kind)));
  }
  const int64_t elements = tensors_[found->second].elements;
  if (begin < 0 || begin > end || end > elements) {
    return absl::OutOfRangeError(
        absl::StrCat(path_, ": elements [", begin, ", ", end, ") of ",
                     DescribeTensor(name, kind), ", which has ", elements));
  }
  const std::vector<Place>& places = places_[found->second];
  // The last piece that does not begin after `begin`.
  auto place =
      std::upper_bound(places.begin() + 1, places.end(), begin,
                       [](int64_t at, const Place& p) { return at < p.begin; });
  for (--place; begin < end; ++place) {
    const int64_t n = std::min(end, PieceAt(*place).end()) - begin;
    CASTOR_RETURN_IF_ERROR(
        files_[place->file]->Read(place->piece, begin, begin + n, out, &last_));
    begin += n;
    out += n;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CheckpointReader::Identity() const {
  std::vector<uint64_t> of_files;
  for (const auto& file : files_) {
    CASTOR_ASSIGN_OR_RETURN(const uint64_t identity, file->Identity());
    of_files.push_back(identity);
  }
  return checkpoint_format::Checksum(of_files.data(),
                                     of_files.size() * sizeof(uint64_t), 0);
}

absl::Status CheckpointReader::VerifyAll() const {
  for (const auto& file : files_) CASTOR_RETURN_IF_ERROR(file->VerifyAll());
  return absl::OkStatus();
}

}  // namespace castor
