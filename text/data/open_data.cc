#include "text/data/open_data.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "base/units.h"
#include "runtime/data/joined_data.h"
#include "runtime/data/padded_lengths.h"
#include "runtime/data/token_data.h"
#include "runtime/data/token_file.h"
#include "text/data/cached_tokens.h"
#include "text/data/find_files.h"
#include "text/data/labelled_record.h"
#include "text/data/labelled_source.h"
#include "text/data/line_data.h"
#include "text/data/streamed_data.h"
#include "text/data/token_cache.h"
#include "text/data/tokenize.h"

namespace castor {
namespace {

constexpr char kTrain[] = "data.train";

// At most so many files are open at once, two descriptors each at times.
constexpr size_t kMostFiles = 400;

// Threads that tokenise beside training.
constexpr int kMostStreamThreads = 4;

// The content of one file: a run of tokens, or samples.
struct OpenFile {
  // Where it is streamed, there is nothing else.
  std::optional<StreamedFile> streamed = {};
  std::shared_ptr<const TokenSource> run = nullptr;
  // The token that ends the run where another one follows; -1: it needs none.
  int32_t separator = -1;
  DataFile samples = {};  // where there is no run
};

// Returns true if records of `format` are conversations.
bool IsChat(RecordFormat format) {
  return format == RecordFormat::kMessages ||
         format == RecordFormat::kConversations;
}

// A file that is only looked for.
OpenFile LookedFor() {
  return {.samples = {.size = 0,
                      .part = [](const DataPart&)
                          -> absl::StatusOr<std::unique_ptr<DataSet>> {
                        return nullptr;
                      }}};
}

// The encodings and rules that make tokens of texts and records; they live as
// long as these are read.
struct Encodings {
  std::optional<TextEncoding> text;
  std::optional<ChatEncoding> chat;
  std::deque<ExampleRules> rules;
};

class DataOpener {
 public:
  DataOpener(const DataConfig& data, const OpenDataOptions& options)
      : data_(data), options_(options), keys_(data.keys) {}

  absl::StatusOr<std::vector<WeightedFile>> Open(
      absl::string_view key, const std::vector<DataSource>& sources);

  // Does the same for a source that is read beside training.
  absl::StatusOr<std::unique_ptr<StreamedSet>> OpenStream(
      absl::string_view key, const std::vector<DataSource>& sources);

  // Returns true if a file to train on has records that are samples.
  bool trains_on_samples() const { return trains_on_samples_; }

  const WordMasks& masks() const { return masks_; }

  // Returns null if no text was read.
  TextOfTokens text_of() const {
    return encoding_.has_value() ? encoding_->decode : nullptr;
  }

 private:
  // The files of the sources without a weight, and of each other one.
  using Groups = std::vector<std::pair<std::vector<std::string>, double>>;
  absl::StatusOr<Groups> GroupsOf(absl::string_view key,
                                  const std::vector<DataSource>& sources);
  absl::StatusOr<std::vector<std::string>> FilesOf(absl::string_view key,
                                                   const std::string& path);
  absl::Status AddStreamed(absl::string_view key,
                           const std::vector<std::string>& paths, double weight,
                           std::vector<StreamedSource>* sources);
  absl::Status AddFiles(absl::string_view key,
                        const std::vector<std::string>& paths, double weight,
                        std::vector<WeightedFile>* files);
  absl::StatusOr<OpenFile> OpenOne(absl::string_view key,
                                   const std::string& path);
  absl::Status CheckPacking(const std::string& path, Packing packing) const;
  // Sets encoding_, unless another file of text has.
  absl::Status LoadEncoding(const std::string& path);
  absl::StatusOr<TextEncoding> FindEncoding(const std::string& path);
  // Sets chat_, or says in no_chat_ why there is none.
  absl::Status LoadTemplate();
  bool MayBeBytes(const std::string& path) const;
  void TellOfDocuments(absl::string_view key);
  void TellOfEnds(absl::string_view key, RecordFormat format);
  absl::StatusOr<OpenFile> OpenRecords(absl::string_view key,
                                       const std::string& path);
  // Does the same for a model that sees whole sequences.
  absl::StatusOr<OpenFile> OpenLabelled(absl::string_view key,
                                        const std::string& path);
  absl::StatusOr<OpenFile> OpenCached(
      absl::string_view key, const std::string& path, SourceKind kind,
      const ExampleRules* examples, const std::vector<std::string>& unused,
      std::optional<LabelledRules> labelled = std::nullopt);
  // Says a line, once.
  void Say(absl::string_view key, absl::string_view line) {
    const std::string whole = absl::StrCat(key, ": ", line);
    if (said_.insert(whole).second) options_.say(whole);
  }

  const DataConfig& data_;
  const OpenDataOptions& options_;
  const RecordKeys keys_;
  size_t num_files_ = 0;
  NamedFiles named_files_;
  bool streams_ = false;
  bool trains_on_samples_ = false;
  WordMasks masks_;
  const std::shared_ptr<Encodings> encodings_ = std::make_shared<Encodings>();
  std::optional<TextEncoding>& encoding_ = encodings_->text;
  std::string directory_;  // the tokenizer's; "": there is none
  std::optional<ChatEncoding>& chat_ = encodings_->chat;
  std::string no_chat_;
  std::set<std::string> said_;
};

absl::StatusOr<DataOpener::Groups> DataOpener::GroupsOf(
    absl::string_view key, const std::vector<DataSource>& sources) {
  // The sources without a weight count as one, which is the first.
  Groups groups = {{{}, 1}};
  for (const DataSource& source : sources) {
    CASTOR_ASSIGN_OR_RETURN(std::vector<std::string> paths,
                            FilesOf(key, source.path));
    if (source.weight == 0) {
      std::move(paths.begin(), paths.end(),
                std::back_inserter(groups[0].first));
    } else {
      groups.emplace_back(std::move(paths), source.weight);
    }
  }
  return groups;
}

absl::StatusOr<std::vector<WeightedFile>> DataOpener::Open(
    absl::string_view key, const std::vector<DataSource>& sources) {
  CASTOR_ASSIGN_OR_RETURN(const Groups groups, GroupsOf(key, sources));
  std::vector<WeightedFile> files;
  for (const auto& [paths, weight] : groups) {
    CASTOR_RETURN_IF_ERROR(AddFiles(key, paths, weight, &files));
  }
  return files;
}

absl::StatusOr<std::unique_ptr<StreamedSet>> DataOpener::OpenStream(
    absl::string_view key, const std::vector<DataSource>& sources) {
  streams_ = true;
  CASTOR_ASSIGN_OR_RETURN(const Groups groups, GroupsOf(key, sources));
  StreamedDataRequest request = {
      .key = std::string(key),
      .sources = {},
      .length = data_.sequence_length,
      .vocabulary = options_.vocabulary,
      .shuffle = data_.shuffle,
      .seed = options_.seed,
      .window = data_.shuffle_window,
      .threads = std::clamp(options_.threads / 4, 1, kMostStreamThreads),
      .owner = encodings_};
  for (const auto& [paths, weight] : groups) {
    CASTOR_RETURN_IF_ERROR(AddStreamed(key, paths, weight, &request.sources));
  }
  streams_ = false;
  int64_t files = 0, bytes = 0;
  for (const StreamedSource& source : request.sources) {
    for (const StreamedFile& file : source.files) {
      ++files;
      bytes += file.stamp.size_bytes;
    }
  }
  Say(key, absl::StrCat("read and tokenised beside training: ", files,
                        files == 1 ? " file, " : " files, ", FormatBytes(bytes),
                        ", ", request.window,
                        " samples at a time (data.shuffle_window)"));
  return OpenStreamedData(std::move(request));
}

absl::Status DataOpener::AddStreamed(absl::string_view key,
                                     const std::vector<std::string>& paths,
                                     double weight,
                                     std::vector<StreamedSource>* sources) {
  StreamedSource runs = {.files = {}, .weight = weight};
  StreamedSource samples = runs;
  for (const std::string& path : paths) {
    CASTOR_ASSIGN_OR_RETURN(OpenFile file, OpenOne(key, path));
    StreamedFile& streamed = *file.streamed;
    streamed.separator = file.separator;
    // Any file can be looked at as one of lines.
    CASTOR_ASSIGN_OR_RETURN(const auto reader,
                            SourceReader::Open(path, SourceCut::kLines));
    streamed.stamp = reader->stamp();
    (streamed.has_samples() ? samples : runs)
        .files.push_back(std::move(streamed));
  }
  for (StreamedSource* source : {&runs, &samples}) {
    if (!source->files.empty()) sources->push_back(std::move(*source));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> DataOpener::FilesOf(
    absl::string_view key, const std::string& path) {
  CASTOR_ASSIGN_OR_RETURN(FoundFiles found, FindFiles(path));
  if (found.passed_over > 0) {
    Say(key,
        absl::StrCat(found.passed_over, " of the files in \"", path,
                     "\" end in none of ", kDataEndings, ", and are not read"));
  }
  for (const std::string& each : found.paths) {
    CASTOR_ASSIGN_OR_RETURN(const std::string repeat,
                            named_files_.Add(key, each));
    if (!repeat.empty()) Say(absl::StrCat("note: ", key), repeat);
  }
  num_files_ += found.paths.size();
  if (num_files_ > kMostFiles) {
    return absl::InvalidArgumentError(
        absl::StrCat("names more files than can be open at once (", kMostFiles,
                     "): put several into one"));
  }
  return std::move(found.paths);
}

absl::Status DataOpener::AddFiles(absl::string_view key,
                                  const std::vector<std::string>& paths,
                                  double weight,
                                  std::vector<WeightedFile>* files) {
  std::vector<std::shared_ptr<const TokenSource>> runs;
  std::vector<int32_t> separators;
  std::vector<WeightedFile> samples;
  for (const std::string& path : paths) {
    CASTOR_ASSIGN_OR_RETURN(OpenFile file, OpenOne(key, path));
    if (file.run != nullptr) {
      runs.push_back(std::move(file.run));
      separators.push_back(file.separator);
    } else {
      samples.push_back({std::move(file.samples), weight});
    }
  }
  if (!runs.empty()) {
    files->push_back(
        {TokenDataFile(JoinTokens(std::move(runs), separators)), weight});
  }
  std::move(samples.begin(), samples.end(), std::back_inserter(*files));
  return absl::OkStatus();
}

absl::Status DataOpener::CheckPacking(const std::string& path,
                                      Packing packing) const {
  const Packing asked = data_.packing.value_or(packing);
  if (asked == packing) return absl::OkStatus();
  if (packing == Packing::kNone && asked == Packing::kRows) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      packing == Packing::kDocuments
          ? absl::StrCat("data.packing \"",
                         asked == Packing::kNone ? "none" : "rows",
                         "\" has no meaning for file \"", path,
                         "\", which is one run of tokens: leave it out")
          : absl::StrCat("data.packing \"documents\" has no meaning for file "
                         "\"",
                         path,
                         "\", whose records are samples with labels: leave it "
                         "out"));
}

absl::StatusOr<OpenFile> DataOpener::OpenOne(absl::string_view key,
                                             const std::string& path) {
  const SourceContent content = ContentByName(path);
  if (content == SourceContent::kUnknown) {
    return absl::InvalidArgumentError(
        absl::StrCat("file \"", path, "\" ends in none of ", kDataEndings));
  }
  CASTOR_RETURN_IF_ERROR(CheckDocStride(data_, options_.task));
  if (options_.task != ModelTask::kNextToken) return OpenLabelled(key, path);
  const bool text = content == SourceContent::kText;
  if (!text && content != SourceContent::kTokens) return OpenRecords(key, path);
  CASTOR_RETURN_IF_ERROR(CheckPacking(path, Packing::kDocuments));
  CASTOR_RETURN_IF_ERROR(
      CheckLossOn(RecordFormat::kText, data_.loss_on.value_or(LossOn::kAll)));
  if (text) {
    CASTOR_ASSIGN_OR_RETURN(const auto reader,
                            SourceReader::Open(path, SourceCut::kText));
    CASTOR_ASSIGN_OR_RETURN(const absl::string_view is, reader->CheckContent());
    if (!is.empty()) Say(key, absl::StrCat("file \"", path, "\" ", is));
    CASTOR_RETURN_IF_ERROR(LoadEncoding(path));
  }
  const bool packed = UnpackName(path).compression != Compression::kNone;
  if (!text || (encoding_->is_bytes && !packed)) {
    CASTOR_ASSIGN_OR_RETURN(
        std::shared_ptr<const TokenFile> file,
        TokenFile::Open(
            path, {.token_type = data_.token_type,
                   .vocabulary = options_.vocabulary,
                   .say = [&](absl::string_view line) { Say(key, line); }}));
    if (streams_) {
      return OpenFile{
          .streamed = StreamedFile{.path = path, .tokens = std::move(file)}};
    }
    return OpenFile{.run = std::move(file)};
  }
  CASTOR_ASSIGN_OR_RETURN(
      OpenFile file, OpenCached(key, path, SourceKind::kText, nullptr, {}));
  file.separator = encoding_->end_of_document;
  return file;
}

absl::StatusOr<OpenFile> DataOpener::OpenRecords(absl::string_view key,
                                                 const std::string& path) {
  CASTOR_ASSIGN_OR_RETURN(
      const FoundRecords found,
      FindRecords(path, keys_, data_.format, data_.packing == Packing::kRows));
  const RecordFormat format = found.format;
  const LossOn loss_on = data_.loss_on.value_or(DefaultLossOn(format));
  CASTOR_RETURN_IF_ERROR(CheckLossOn(format, loss_on));
  if (format == RecordFormat::kText &&
      data_.packing.value_or(Packing::kDocuments) == Packing::kDocuments) {
    CASTOR_RETURN_IF_ERROR(LoadEncoding(path));
    return OpenCached(key, path, SourceKind::kTextLines, nullptr, found.unused);
  }
  CASTOR_RETURN_IF_ERROR(CheckPacking(path, Packing::kNone));
  if (format == RecordFormat::kTokens) {
    return OpenCached(key, path, SourceKind::kTokenLines, nullptr,
                      found.unused);
  }
  CASTOR_RETURN_IF_ERROR(LoadEncoding(path));
  if (IsChat(format) || format == RecordFormat::kPrompt) {
    CASTOR_RETURN_IF_ERROR(LoadTemplate());
  }
  if (IsChat(format) && !chat_.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("file \"", path,
                     "\" has conversations, and there is no "
                     "chat template for them: ",
                     no_chat_));
  }
  const ExampleRules rules = {.format = format,
                              .loss_on = loss_on,
                              .keys = keys_,
                              .encoding = &*encoding_,
                              .chat = chat_.has_value() ? &*chat_ : nullptr,
                              .no_chat = no_chat_};
  return OpenCached(key, path, SourceKind::kExamples, &rules, found.unused);
}

absl::StatusOr<OpenFile> DataOpener::OpenLabelled(absl::string_view key,
                                                  const std::string& path) {
  LabelledRules rules = {
      .task = options_.task,
      .vocabulary = options_.vocabulary,
      .labels = options_.labels,
      .segments = options_.segments,
      .sequence_labels = options_.sequence_labels,
      .most_tokens = data_.sequence_length,
      .doc_stride = options_.task == ModelTask::kSpan
                        ? data_.doc_stride.value_or(kDefaultDocStride)
                        : 0,
      .keys = keys_};
  CASTOR_RETURN_IF_ERROR(CheckLabelledSource(path, data_, rules));
  CASTOR_RETURN_IF_ERROR(CheckPacking(path, Packing::kNone));
  CASTOR_ASSIGN_OR_RETURN(
      const FoundRecords found,
      FindRecords(path, keys_, data_.format,
                  /*tells_documents_apart=*/false,
                  LabelledKeys(options_.task, options_.sequence_labels)));
  const bool text = found.format == RecordFormat::kText;
  if (text) CASTOR_RETURN_IF_ERROR(LoadEncoding(path));
  if (options_.task == ModelTask::kMaskedTokens) {
    CASTOR_RETURN_IF_ERROR(
        masks_.AddFile(path, text ? &*encoding_ : nullptr, options_.vocabulary,
                       options_.sequence_labels, options_.seed));
  }
  rules.encoding = text ? &*encoding_ : nullptr;
  return OpenCached(key, path, SourceKind::kLabelled, nullptr, found.unused,
                    std::move(rules));
}

absl::Status DataOpener::LoadTemplate() {
  if (chat_.has_value() || !no_chat_.empty()) return absl::OkStatus();
  if (directory_.empty() || options_.load_template == nullptr) {
    no_chat_ = absl::StrCat(encoding_->name, " has none");
    return absl::OkStatus();
  }
  absl::StatusOr<ChatEncoding> loaded =
      options_.load_template(directory_, encoding_->named_tokens);
  if (loaded.ok()) {
    chat_ = *std::move(loaded);
    return absl::OkStatus();
  }
  if (!absl::IsNotFound(loaded.status())) return loaded.status();
  no_chat_ = std::string(loaded.status().message());
  return absl::OkStatus();
}

bool DataOpener::MayBeBytes(const std::string& path) const {
  const int64_t bytes = ByteEncoding().vocabulary;
  return options_.vocabulary == bytes ||
         (options_.vocabulary < bytes && options_.model_directory.empty() &&
          absl::EndsWith(path, ".txt"));
}

absl::StatusOr<TextEncoding> DataOpener::FindEncoding(const std::string& path) {
  constexpr absl::string_view kWhatToDo =
      "set data.tokenizer to a directory with a tokenizer, or to \"bytes\" if "
      "the model's tokens are bytes";
  if (data_.tokenizer == kBytesTokenizer) return ByteEncoding();
  if (!data_.tokenizer.empty()) {
    directory_ = data_.tokenizer;
    absl::StatusOr<TextEncoding> loaded = options_.load_tokenizer(directory_);
    if (loaded.ok()) return loaded;
    return Annotate("data.tokenizer", loaded.status());
  }
  std::string missing = "the model has no directory";
  if (!options_.model_directory.empty()) {
    absl::StatusOr<TextEncoding> loaded =
        options_.load_tokenizer(options_.model_directory);
    if (loaded.ok()) {
      directory_ = options_.model_directory;
      return loaded;
    }
    if (!absl::IsNotFound(loaded.status())) {
      return Annotate("the model's tokenizer", loaded.status());
    }
    missing = std::string(loaded.status().message());
  }
  if (MayBeBytes(path)) return ByteEncoding();
  const std::string refusal =
      absl::StrCat("file \"", path,
                   "\" has text, and there is no tokenizer for the model's ",
                   options_.vocabulary, " tokens (", missing, "): ", kWhatToDo);
  if (options_.look_only && options_.sizes_only) {
    options_.say(absl::StrCat("note: to train, ", refusal));
    return ByteEncoding();
  }
  return absl::InvalidArgumentError(refusal);
}

absl::Status DataOpener::LoadEncoding(const std::string& path) {
  if (!encoding_.has_value()) {
    CASTOR_ASSIGN_OR_RETURN(encoding_, FindEncoding(path));
  }
  return absl::OkStatus();
}

// Says that no end token separates the documents of a file of lines.
void DataOpener::TellOfDocuments(absl::string_view key) {
  if (encoding_->end_of_document >= 0) return;
  const bool around = !encoding_->before.empty() || !encoding_->after.empty();
  Say(absl::StrCat("note: ", key),
      absl::StrCat("documents are not separated by an end-of-text token (",
                   encoding_->end_looked_for, ")",
                   around ? ", but by what the tokenizer puts around each"
                          : ": each follows the one before it at once"));
}

// Says that no end token ends the texts that are samples of their own.
void DataOpener::TellOfEnds(absl::string_view key, RecordFormat format) {
  if (IsChat(format) || encoding_->end_of_document >= 0 ||
      !encoding_->after.empty()) {
    return;
  }
  Say(absl::StrCat("note: ", key),
      absl::StrCat(format == RecordFormat::kText     ? "texts are"
                   : format == RecordFormat::kPrompt ? "completions that are "
                                                       "no messages are"
                                                     : "outputs are",
                   " not ended by an end-of-text token (",
                   encoding_->end_looked_for,
                   "), so where they end is not learned"));
}

absl::StatusOr<OpenFile> DataOpener::OpenCached(
    absl::string_view key, const std::string& path, SourceKind kind,
    const ExampleRules* examples, const std::vector<std::string>& unused,
    std::optional<LabelledRules> labelled) {
  if (!unused.empty()) {
    Say(key, absl::StrCat(
                 "its ", PlaceWord(path), "s have keys that are not used: ",
                 absl::StrJoin(unused, ", ",
                               [](std::string* out, const std::string& name) {
                                 out->append(QuotedForMessage(name));
                               })));
  }
  trains_on_samples_ |= HasSamples(kind) && key == kTrain;
  if (options_.look_only) {
    CASTOR_RETURN_IF_ERROR(SourceReader::Open(path, CutOf(kind)).status());
    return LookedFor();
  }
  const TextEncoding* encoding =
      kind == SourceKind::kTokenLines ? nullptr : &*encoding_;
  if (labelled.has_value()) encoding = labelled->encoding;
  const TokenizeOptions tokenize = {
      .kind = kind,
      .encoding = encoding,
      .keys = keys_,
      .examples = examples,
      .labelled = std::move(labelled),
      .tells_documents_apart = data_.packing == Packing::kRows,
      .vocabulary = options_.vocabulary,
      .threads = options_.threads,
      .progress = nullptr};
  if (kind == SourceKind::kTextLines) TellOfDocuments(key);
  if (examples != nullptr) TellOfEnds(key, examples->format);
  if (streams_) {
    StreamedFile streamed = {
        .path = path, .tokenize = tokenize, .unused = unused};
    if (examples != nullptr) {
      encodings_->rules.push_back(*examples);
      streamed.tokenize.examples = &encodings_->rules.back();
    }
    return OpenFile{.streamed = std::move(streamed)};
  }
  CachedTokensRequest request = {
      .path = path,
      .tokenize = tokenize,
      .directory = data_.cache,
      .timeout_seconds = data_.cache_timeout_seconds,
      .say = [&](absl::string_view line) { Say(key, line); }};
  request.tokenize.unused_key = [&](const std::string& name, int64_t line) {
    if (std::find(unused.begin(), unused.end(), name) != unused.end()) return;
    Say(key, UnusedKey(path, line, name));
  };
  CASTOR_ASSIGN_OR_RETURN(std::shared_ptr<const TokenCache> cache,
                          OpenCachedTokens(request));
  if (HasSamples(kind)) {
    return OpenFile{.samples = LineDataFile(std::move(cache), path,
                                            kind == SourceKind::kLabelled)};
  }
  return OpenFile{.run = TokensOf(std::move(cache), path)};
}

}  // namespace

absl::StatusOr<DataSplits> OpenData(const DataConfig& data,
                                    const OpenDataOptions& options) {
  DataOpener opener(data, options);
  DataConfig of = data;
  of.streaming = data.streaming && !options.look_only;
  std::unique_ptr<StreamedSet> stream;
  if (of.streaming) {
    auto opened = opener.OpenStream(kTrain, data.train);
    CASTOR_RETURN_IF_ERROR(Annotate(kTrain, opened.status()));
    stream = *std::move(opened);
  }
  CASTOR_ASSIGN_OR_RETURN(
      DataSplits splits,
      OpenDataSplits(
          of, options.vocabulary, options.seed,
          [&](absl::string_view key, const std::vector<DataSource>& sources) {
            return opener.Open(key, sources);
          },
          options.batch_samples));
  if (options.look_only && !data.streaming && opener.trains_on_samples() &&
      FormsByLength(data, options.batch_samples)) {
    options.say(absl::StrCat(
        kTrain, ": batches will be formed by length, and padded to at most ",
        LengthCounts::kMostLengths,
        " lengths that are known when the data are tokenised: this is for "
        "those of data.sequence_length (",
        data.sequence_length,
        "), the longest that there can be, and training admits all of them "
        "before its first step"));
  }
  splits.stream = stream.get();
  if (stream != nullptr) splits.train = std::move(stream);
  opener.masks().Mask(&splits.train);
  opener.masks().Mask(&splits.validation);
  splits.text_of = opener.text_of();
  return splits;
}

}  // namespace castor
