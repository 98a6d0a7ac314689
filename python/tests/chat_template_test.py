"""`castor tokenize --chat` renders conversations to the bytes of transformers.

Each chat template that TRL ships renders random conversations: odd characters,
tools, tool calls, empty turns, reasoning. CASTOR_CASES: how many of each.
"""

import concurrent.futures
import datetime
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import tokenizers
import torch
import transformers
import trl
from tokenizers import decoders, models, pre_tokenizers

BINARY = os.environ.get("CASTOR_BINARY")
CASES = int(os.environ.get("CASTOR_CASES", "10"))
TEMPLATES = sorted(
    (pathlib.Path(trl.__file__).parent / "chat_templates").glob("*.jinja")
)

TEXTS = [
    "", " ", "\n", "Hello there", "  lead", "trail \n\n", "a<b>&\"c'\"d",
    "{{ x }} {% if %} {# #}", "<|im_start|>user\nhi<|im_end|>", "</think>",
    "<think>\nhm\n</think>\n\nanswer", "<think>open", "x</think>y</think>z",
    "na\u00efve \u6f22\u5b57 \U0001f600 \u00a0\u3000", "tab\t\x00\x7f\x1b[0m",
    "\u2028sep\u2029", "```python\nprint('hi')\n```", "C:\\new\\table \\\"q\\\"",
    "cr\r\nlf\rx", "\u00df\u0130\u01c6 \u03a3\u03a3",
    "\U0001f3f3\ufe0f\u200d\U0001f308 e\u0301", "<start_of_turn>model",
    "[INST] x [/INST]", "1. one\n2. two\n\n\n", "\x0b\x0c\x1c\x85",
    "<tool_call>{}</tool_call>", "<|channel|>analysis", "\ufeff\ue000\ufffd",
    "%s %d {} {0}",
]  # fmt: skip
ROLES = ["user", "assistant", "system", "tool", "developer"]


def text(rng):
    if rng.random() < 0.1:
        return "".join(rng.choice(TEXTS) for _ in range(rng.randrange(20)))
    return rng.choice(TEXTS)


def value(rng, depth=0):
    kinds = ["text", "int", "float", "bool", "none"]
    if depth < 3:
        kinds += ["list", "dict"]
    kind = rng.choice(kinds)
    if kind == "text":
        return text(rng)
    if kind == "int":
        return rng.choice([0, 1, -7, 123456789012345])
    if kind == "float":
        return rng.choice([0.1, 1.0, -2.5e-7, 1e16, 1e22, 3.14159, 1e-5])
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "none":
        return None
    if kind == "list":
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    keys = rng.sample(["b", "a", "Ab", "key one", "\u00e9", "items", "type"], 3)
    return {key: value(rng, depth + 1) for key in keys}


def schema(rng, depth=0):
    kind = rng.choice(["string", "integer", "number", "boolean", "array", "object"])
    made = {"type": kind if depth or kind != "array" else "string"}
    if rng.random() < 0.7:
        made["description"] = text(rng)
    if made["type"] == "string" and rng.random() < 0.3:
        made["enum"] = ["one", 'tw"o', "dr\u00ea"]
    if rng.random() < 0.2:
        made["default"] = rng.choice([1, "x", None, True, 0.5])
    if rng.random() < 0.1:
        made["nullable"] = True
    if made["type"] == "array" and depth < 3:
        made["items"] = schema(rng, depth + 1)
    if made["type"] == "object" and depth < 3:
        names = rng.sample(["x", "Y", "unit", "a_b"], rng.randrange(1, 4))
        made["properties"] = {n: schema(rng, depth + 1) for n in names}
        if rng.random() < 0.7:
            made["required"] = names[:1]
    return made


def tool(rng):
    names = rng.sample(["city", "when", "Count", "opts"], rng.randrange(4))
    function = {
        "name": rng.choice(["get_weather", "search", "run.it"]),
        "description": text(rng),
        "parameters": {
            "type": "object",
            "properties": {name: schema(rng) for name in names},
        },
    }
    if rng.random() < 0.7:
        function["parameters"]["required"] = names[:1]
    if rng.random() < 0.2:
        function["return"] = {"type": "string", "description": text(rng)}
    return {"type": "function", "function": function}


def call(rng):
    arguments = {k: value(rng, 1) for k in rng.sample(["city", "n", "x\u00fc"], 2)}
    if rng.random() < 0.2:
        arguments = json.dumps(arguments)
    made = {
        "type": "function",
        "function": {"name": "get_weather", "arguments": arguments},
    }
    if rng.random() < 0.6:
        made["id"] = f"call_{rng.randrange(10)}"
    return made


def content(rng):
    if rng.random() < 0.15:
        count = rng.randrange(1, 3)
        parts = [{"type": "text", "text": text(rng)} for _ in range(count)]
        if rng.random() < 0.5:
            parts.insert(0, {"type": "image"})
        return parts
    return text(rng)


def messages(rng):
    if rng.random() < 0.05:
        return [
            {"role": rng.choice(ROLES), "content": text(rng)}
            for _ in range(rng.randrange(1, 5))
        ]
    made = []
    if rng.random() < 0.5:
        role = rng.choice(["system", "system", "developer"])
        made.append({"role": role, "content": content(rng)})
    for _ in range(rng.randrange(1, 4)):
        made.append({"role": "user", "content": content(rng)})
        answer = {"role": "assistant", "content": content(rng)}
        if rng.random() < 0.3:
            key = rng.choice(["reasoning_content", "thinking", "reasoning"])
            answer[key] = text(rng)
        if rng.random() < 0.3:
            calls = [call(rng) for _ in range(rng.choice([1, 1, 2]))]
            asked = dict(answer, tool_calls=calls)
            if rng.random() < 0.5:
                asked["content"] = rng.choice(["", None])
            made.append(asked)
            for one in calls:
                reply = {"role": "tool", "name": "get_weather", "content": text(rng)}
                if "id" in one:
                    reply["tool_call_id"] = one["id"]
                made.append(reply)
        made.append(answer)
    if rng.random() < 0.3:
        made.pop()
    return made


def record(rng):
    made = {"messages": messages(rng)}
    if rng.random() < 0.4:
        made["tools"] = [tool(rng) for _ in range(rng.randrange(3))]
    if rng.random() < 0.1:
        made["documents"] = [{"title": text(rng), "text": text(rng)}]
    if rng.random() < 0.4:
        more = {
            "enable_thinking": rng.random() < 0.5,
            "reasoning_effort": rng.choice(["low", "high"]),
            "date_string": "1 Jan 2025",
            "builtin_tools": ["browser", "python"],
            "tools_in_user_message": False,
            "preserve_thinking": True,
            "model_identity": text(rng),
        }
        names = rng.sample(sorted(more), rng.randrange(1, 4))
        made["chat_template_kwargs"] = {name: more[name] for name in names}
    return made


def make_directory(directory):
    """A tokenizer of bytes, with all templates under their names."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {c: i for i, c in enumerate(alphabet)}
    made = tokenizers.Tokenizer(models.BPE(vocabulary, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<s>",
        eos_token=tokenizers.AddedToken("</s>", normalized=False),
        pad_token="<pad>",
        image_token="<image>",
    )
    tokenizer.chat_template = {
        path.stem: path.read_text(encoding="utf-8") for path in TEMPLATES
    }
    tokenizer.save_pretrained(directory)
    return transformers.AutoTokenizer.from_pretrained(directory)


@unittest.skipUnless(BINARY, "CASTOR_BINARY names no program")
class ChatTemplateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.directory = pathlib.Path(folder.name)
        cls.tokenizer = make_directory(cls.directory)

    def castor(self, records, name, *options):
        path = self.directory / f"{name}-{len(records)}.jsonl"
        # Some with escapes, some as they are.
        lines = [json.dumps(r, ensure_ascii=i % 2 == 0) for i, r in enumerate(records)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
        return subprocess.run(
            [BINARY, "tokenize", "--tokenizer", self.directory, "--chat", path]
            + ["--template", name, *options],
            capture_output=True,
        )

    def rendered(self, one, name, **options):
        return self.tokenizer.apply_chat_template(
            one["messages"],
            tools=one.get("tools"),
            documents=one.get("documents"),
            chat_template=name,
            **options,
            **one.get("chat_template_kwargs", {}),
        )

    def compare(self, name):
        rng = random.Random(name)
        prompt = rng.random() < 0.5
        options = ["--add-generation-prompt"] if prompt else []
        good, want, bad = [], [], []
        for _ in range(100 * CASES):
            if len(good) == CASES:
                break
            one = record(rng)
            try:
                rendered = self.rendered(
                    one, name, tokenize=False, add_generation_prompt=prompt
                )
                want.append(rendered)
                good.append(one)
            except Exception:
                bad.append(one)
        done = self.castor(good, name, "--as-text", *options)
        self.assertEqual(done.returncode, 0, (name, done.stderr))
        have = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(have), len(want), name)
        for one, theirs, ours in zip(good, want, have):
            self.assertEqual(ours, theirs, (name, one))
        # What the template refuses is refused, whatever comes after it.
        for one in bad[:1]:
            done = self.castor([one], name, "--as-text", *options)
            self.assertEqual(done.returncode, 2, (name, one, done.stdout))
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
            self.assertIn(b", line 1: ", done.stderr)
        # A generator whose conversations are all refused would show nothing.
        self.assertEqual(len(good), CASES, name)

    def test_real_templates(self):
        today = datetime.date.today()
        workers = os.cpu_count() or 1
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            list(pool.map(self.compare, [path.stem for path in TEMPLATES]))
        if datetime.date.today() != today:
            self.skipTest("midnight has passed, and some templates write the date")
        self.assertGreater(len(TEMPLATES), 10)

    def test_ids_have_no_second_bos(self):
        name = next(p.stem for p in TEMPLATES if "bos_token" in p.read_text())
        records = [{"messages": [{"role": "user", "content": t}]} for t in TEXTS[3:9]]
        done = self.castor(records, name)
        self.assertEqual(done.returncode, 0, done.stderr)
        have = [json.loads(line) for line in done.stdout.splitlines()]
        want = [
            self.rendered(one, name, tokenize=True, return_dict=False)
            for one in records
        ]
        self.assertEqual(have, want)
        self.assertEqual(have[0].count(self.tokenizer.bos_token_id), 1)

    def test_a_conversation_is_what_transformers_generates(self):
        directory = self.directory / "model"
        torch.manual_seed(5)
        config = transformers.LlamaConfig(
            vocab_size=len(self.tokenizer), hidden_size=32, intermediate_size=64,
            num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=512, initializer_range=0.4,
            eos_token_id=[10, 11], bos_token_id=None, pad_token_id=0,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config).eval()
        model.save_pretrained(directory)
        self.tokenizer.save_pretrained(directory)
        for name in ("qwen2_5", "deepseek_r1_distill"):
            messages, want = [{"role": "system", "content": "Brief."}], ""
            for said in ("Hi \u00e9", "And then?", "Why"):
                messages.append({"role": "user", "content": said})
                ids = self.tokenizer.apply_chat_template(
                    messages, chat_template=name, add_generation_prompt=True,
                    return_tensors="pt", return_dict=False,
                )  # fmt: skip
                made = model.generate(
                    ids, attention_mask=torch.ones_like(ids), do_sample=False,
                    max_new_tokens=12,
                )[0, ids.shape[1] :].tolist()  # fmt: skip
                if made[-1] in (10, 11, self.tokenizer.eos_token_id):
                    made.pop()
                answer = self.tokenizer.decode(made, skip_special_tokens=True)
                messages.append({"role": "assistant", "content": answer})
                want += answer + "\n"
            done = subprocess.run(
                [BINARY, "generate", directory, "--chat", "--template", name]
                + ["--system", "Brief.", "--max-new-tokens", "12"],
                input="Hi \u00e9\n\nAnd then?\nWhy".encode(),
                capture_output=True,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.decode(), want, name)


if __name__ == "__main__":
    unittest.main()
