#!/usr/bin/env python3
"""Makes text of many kinds, to try tokenizers on.

  tools/mixed_text.py MEGABYTES > FILE

Lines of prose in twenty scripts, of code (this repository's own), of numbers,
of white space of all kinds, of emoji and what joins them, of combining marks,
and of random code points. The same commit always makes the same text.
"""

import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# The first article of the Universal Declaration of Human Rights, or part of it.
PROSE = """\
All human beings are born free and equal in dignity and rights.
Tous les êtres humains naissent libres et égaux en dignité et en droits.
Alle Menschen sind frei und gleich an Würde und Rechten geboren.
Todos los seres humanos nacen libres e iguales en dignidad y derechos.
Wszyscy ludzie rodzą się wolni i równi pod względem swej godności.
Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar.
Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm.
Все люди рождаются свободными и равными в своем достоинстве и правах.
Всі люди народжуються вільними і рівними у своїй гідності та правах.
Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια.
כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.
يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.
تمام افراد بشر آزاد به دنیا می‌آیند و از لحاظ حیثیت و حقوق با هم برابرند.
सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है।
সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।
மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.
ప్రతిపత్తిస్వత్వముల విషయమున మానవులెల్లరును జన్మతః స్వతంత్రులు.
มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ
ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებით.
Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ։
人人生而自由，在尊严和权利上一律平等。
人人生而自由，在尊嚴和權利上一律平等。
すべての人間は、生まれながらにして自由であり、尊厳と権利とについて平等である。
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.
ሰዎች ሁሉ ነጻና በክብርና በመብትም እኩል ሆነው ተወልደዋል።
""".splitlines()
SPACES = [" ", "  ", "    ", "\t", "\r", "\v", "\f", "\x85", "\xa0", "\u1680",
          "\u2003", "\u2009", "\u200b", "\u2028", "\u202f", "\u3000", "\ufeff"]
EMOJI = ["\U0001f600", "\U0001f44d\U0001f3fd", "\u2764\ufe0f",
         "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
         "\U0001f1ef\U0001f1f5", "\U0001f3f4\u200d\u2620\ufe0f", "1\ufe0f\u20e3",
         "\u00a9", "\u2122", "\U0001fae8"]
MARKS = [chr(c) for c in [*range(0x300, 0x345), 0x64B, 0x651, 0x93C, 0x94D,
                          0xE31, 0x3099, 0x20DD]]


def _code():
    """The lines of this repository's sources, in an order of their own."""
    lines = []
    for folder, ending in [("memory", "*.cc"), ("text", "*.h"), ("cli", "*.cc"),
                           ("tools", "*.py"), ("viewer/src", "*.ts*")]:
        for path in sorted((ROOT / folder).rglob(ending)):
            lines += path.read_text(encoding="utf-8").splitlines()
    return lines


def _words(chance):
    """Words of one line of prose, in the case and order that chance gives."""
    words = chance.choice(PROSE).split(" ")
    chance.shuffle(words)
    return [chance.choice([str, str, str.upper, str.title])(w) for w in words]


def _number(chance):
    digits = str(chance.randrange(10 ** chance.randint(1, 18)))
    return chance.choice([digits, f"{int(digits):,}", f"-{digits}.{digits[:2]}",
                          f"0x{int(digits):x}", f"{digits}%", f"${digits}",
                          digits.translate({48 + i: 0x660 + i
                                            for i in range(10)})])


def _random_code_point(chance):
    while True:
        c = chr(chance.randrange(chance.choice([0x100, 0x3000, 0x110000])))
        if c != "\n" and not 0xD800 <= ord(c) < 0xE000:
            return c


def _line(chance, code):
    kind = chance.random()
    if kind < 0.45:
        return " ".join(_words(chance) + _words(chance))
    if kind < 0.7:
        return chance.choice(code)
    if kind < 0.76:
        return " ".join(_number(chance) for _ in range(chance.randint(1, 12)))
    if kind < 0.82:
        return "".join(chance.choice(SPACES) * chance.randint(1, 3) + word
                       for word in _words(chance))
    if kind < 0.9:
        return "".join(chance.choice([*EMOJI, " ", "ok"])
                       for _ in range(chance.randint(1, 20)))
    if kind < 0.95:
        return "".join(c + chance.choice(["", "", chance.choice(MARKS)])
                       for c in " ".join(_words(chance)))
    return "".join(_random_code_point(chance)
                   for _ in range(chance.randint(1, 40)))


def make(size_bytes):
    """Lines of at least so many bytes of UTF-8 in all."""
    chance = random.Random(11)
    code = _code()
    lines, size = [], 0
    while size < size_bytes:
        lines.append(_line(chance, code))
        size += len(lines[-1].encode()) + 1
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    sys.stdout.write(make(int(float(sys.argv[1]) * 1e6)))
