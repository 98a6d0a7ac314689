#include "cli/describe/commands.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace castor::cli {
namespace {

OptionInfo InfoOf(const CLI::Option& option) {
  OptionInfo info;
  for (const std::string& name : option.get_snames()) {
    info.names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    info.names.push_back("--" + name);
  }
  info.help = option.get_description();
  info.required = option.get_required();
  if (info.names.empty()) {
    info.value = option.get_name(/*positional=*/true);
    return info;
  }
  if (option.get_items_expected_max() == 0) return info;
  info.value = option.get_type_name();
  // A validator may add its condition behind the type: "N:INT in [1 - 2]".
  info.value = info.value.substr(0, info.value.find(':'));
  for (const absl::string_view word : absl::StrSplit(info.value, '|')) {
    const bool lower = std::all_of(word.begin(), word.end(), [](char c) {
      return absl::ascii_islower(static_cast<unsigned char>(c));
    });
    // Capitals stand for something else: "DIR|bytes".
    if (lower && info.value.find('|') != std::string::npos) {
      info.choices.emplace_back(word);
    }
  }
  return info;
}

void AddCommands(const CLI::App& app, const std::vector<std::string>& path,
                 std::vector<CommandInfo>* commands) {
  CommandInfo info;
  info.path = path;
  info.help = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) info.options.push_back(InfoOf(*option));
  }
  const std::vector<const CLI::App*> below = app.get_subcommands(nullptr);
  for (const CLI::App* each : below) info.commands.push_back(each->get_name());
  commands->push_back(std::move(info));
  for (const CLI::App* each : below) {
    std::vector<std::string> longer = path;
    longer.push_back(each->get_name());
    AddCommands(*each, longer, commands);
  }
}

// `text` in single quotes of a shell.
std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrJoin(absl::StrSplit(text, '\''), "'\\''"),
                      "'");
}

// Inside of zsh's "--option[...]".
std::string InBrackets(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Escapes what man(7) would read as its own in `text`, a part of a line.
std::string Roff(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  // A line that begins so would be a command.
  if (!escaped.empty() && (escaped[0] == '.' || escaped[0] == '\'')) {
    escaped.insert(0, "\\&");
  }
  return escaped;
}

std::vector<std::string> NamesOf(const CommandInfo& command) {
  std::vector<std::string> names;
  for (const OptionInfo& option : command.options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

}  // namespace

std::vector<CommandInfo> CommandsOf(const CLI::App& app) {
  std::vector<CommandInfo> commands;
  AddCommands(app, {}, &commands);
  return commands;
}

std::string BashCompletion(absl::string_view program,
                           const std::vector<CommandInfo>& commands) {
  std::string known, values, words;
  for (const CommandInfo& command : commands) {
    const std::string path =
        absl::StrCat("/", absl::StrJoin(command.path, "/"));
    const std::string base = command.path.empty() ? "" : path;
    for (const std::string& each : command.commands) {
      absl::StrAppend(&known, known.empty() ? "" : " | ", base, "/", each);
    }
    std::string free;  // options whose values are nobody's to know
    for (const OptionInfo& option : command.options) {
      if (option.value.empty()) continue;
      for (const std::string& name : option.names) {
        if (option.choices.empty()) {
          absl::StrAppend(&free, free.empty() ? "" : " | ", base, "/", name);
        } else {
          absl::StrAppend(&values, "    ", base, "/", name, ") words=",
                          Quoted(absl::StrJoin(option.choices, " ")), " ;;\n");
        }
      }
    }
    if (!free.empty()) absl::StrAppend(&values, "    ", free, ") return ;;\n");
    std::vector<std::string> all = command.commands;
    for (const std::string& name : NamesOf(command)) all.push_back(name);
    absl::StrAppend(&words, "        ", Quoted(base),
                    ") words=", Quoted(absl::StrJoin(all, " ")), " ;;\n");
  }
  return absl::StrCat(
      "# What bash completes behind ", program, ". Made by \"", program,
      " describe bash\".\n_", program,
      "() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" command='' words='' i\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    case \"${command}/${COMP_WORDS[i]}\" in\n"
      "      ",
      known.empty() ? "/" : known,
      ") command+=\"/${COMP_WORDS[i]}\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"${command}/${COMP_WORDS[COMP_CWORD - 1]}\" in\n",
      values,
      "    *)\n"
      "      case \"${command}\" in\n",
      words,
      "      esac\n"
      "      ;;\n"
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"${words}\" -- \"${word}\"))\n"
      "}\n"
      // Where there is no such word, files are completed.
      "complete -o default -F _",
      program, " ", program, "\n");
}

std::string ZshCompletion(absl::string_view program,
                          const std::vector<CommandInfo>& commands) {
  std::string functions;
  for (const CommandInfo& command : commands) {
    std::vector<std::string> name = {absl::StrCat("_", program)};
    name.insert(name.end(), command.path.begin(), command.path.end());
    const std::string function = absl::StrJoin(name, "_");
    absl::StrAppend(&functions, function, "() {\n  _arguments -C -s");
    for (const OptionInfo& option : command.options) {
      for (const std::string& each : option.names) {
        std::string spec =
            absl::StrCat("*", each, "[", InBrackets(option.help), "]");
        if (!option.value.empty()) {
          absl::StrAppend(
              &spec, ":", InBrackets(option.value), ":",
              option.choices.empty()
                  ? "_files"
                  : absl::StrCat("(", absl::StrJoin(option.choices, " "), ")"));
        }
        absl::StrAppend(&functions, " \\\n    ", Quoted(spec));
      }
    }
    if (command.commands.empty()) {
      absl::StrAppend(&functions, " \\\n    '*:file:_files'\n}\n\n");
      continue;
    }
    absl::StrAppend(&functions, " \\\n    '1:command:(",
                    absl::StrJoin(command.commands, " "),
                    ")' \\\n    '*::argument:->rest'\n",
                    "  [[ \"${state}\" != rest ]] || ", function,
                    "_\"${words[1]}\"\n}\n\n");
  }
  return absl::StrCat("#compdef ", program, "\n# Made by \"", program,
                      " describe zsh\".\n\n", functions, "_", program,
                      " \"$@\"\n");
}

std::string FishCompletion(absl::string_view program,
                           const std::vector<CommandInfo>& commands) {
  std::string text =
      absl::StrCat("# Made by \"", program, " describe fish\".\n");
  for (const CommandInfo& command : commands) {
    std::string when = "__fish_use_subcommand";
    if (!command.path.empty()) {
      when = absl::StrCat(
          "__fish_seen_subcommand_from ",
          absl::StrJoin(command.path, "; and __fish_seen_subcommand_from "));
    }
    const std::string begin =
        absl::StrCat("complete -c ", program, " -n ", Quoted(when));
    for (const CommandInfo& other : commands) {
      if (other.path.empty() ||
          !std::equal(command.path.begin(), command.path.end(),
                      other.path.begin(), other.path.end() - 1)) {
        continue;
      }
      absl::StrAppend(&text, begin, " -f -a ", other.path.back(), " -d ",
                      Quoted(other.help), "\n");
    }
    for (const OptionInfo& option : command.options) {
      if (option.names.empty()) continue;
      absl::StrAppend(&text, begin);
      for (const std::string& name : option.names) {
        absl::StrAppend(&text, name.rfind("--", 0) == 0 ? " -l " : " -s ",
                        name.substr(name.find_first_not_of('-')));
      }
      if (!option.value.empty()) absl::StrAppend(&text, " -r");
      if (!option.choices.empty()) {
        absl::StrAppend(&text, " -f -a ",
                        Quoted(absl::StrJoin(option.choices, " ")));
      }
      absl::StrAppend(&text, " -d ", Quoted(option.help), "\n");
    }
  }
  return text;
}

std::string ManualPage(absl::string_view program, absl::string_view version,
                       const std::vector<CommandInfo>& commands) {
  const CommandInfo& itself = commands.front();
  std::string text = absl::StrCat(
      ".TH ", absl::AsciiStrToUpper(program), " 1 \"\" \"", program, " ",
      version, "\"\n.SH NAME\n", program, " \\- ", Roff(itself.help),
      "\n.SH SYNOPSIS\n.B ", program, "\n.I COMMAND\n[\\fIOPTION\\fR]...\n");
  for (const CommandInfo& command : commands) {
    if (command.path.empty()) {
      absl::StrAppend(&text, ".SH OPTIONS\n");
    } else {
      if (command.path == commands[1].path) {
        absl::StrAppend(&text, ".SH COMMANDS\n");
      }
      absl::StrAppend(&text, ".SS ", program, " ",
                      Roff(absl::StrJoin(command.path, " ")));
      for (const OptionInfo& option : command.options) {
        if (!option.names.empty()) continue;
        absl::StrAppend(&text, " ", option.required ? "" : "[",
                        Roff(option.value), option.required ? "" : "]");
      }
      absl::StrAppend(&text, "\n", Roff(command.help), "\n");
    }
    for (const OptionInfo& option : command.options) {
      absl::StrAppend(&text, ".TP\n");
      std::vector<std::string> names;
      for (const std::string& name : option.names) {
        names.push_back(absl::StrCat("\\fB", Roff(name), "\\fR"));
      }
      if (!option.value.empty()) {
        const std::string value =
            absl::StrCat("\\fI", Roff(option.value), "\\fR");
        if (names.empty())
          names.push_back(value);
        else
          names.back() += " " + value;
      }
      absl::StrAppend(&text, absl::StrJoin(names, ", "), "\n",
                      Roff(option.help), "\n");
    }
  }
  absl::StrAppend(
      &text,
      ".SH EXIT STATUS\n0: all that was asked for was done. 1: the run or the "
      "machine failed. 2: a mistake in what was asked for, or a run that does "
      "not fit. 128 + N: signal N ended it; of 129, 130 and 143 a run has "
      "saved, and goes on with \\fB\\-\\-resume auto\\fR.\n");
  return text;
}

}  // namespace castor::cli
