"""Wordings in which an answer names an option, and wordings that name none.

``{L}`` is the letter and ``{T}`` the text of the option that the answer settles on; ``{X}`` and
``{XT}`` are those of another option, ``{LIST}`` all options as the question shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

UNDERSTOOD = (
    # letters
    "{L}", "({L})", "（{L}）", "【{L}】", "[{L}]", "{L}.", "{L}。", "{L}、", "{L}:", "**{L}**", "`{L}`", "“{L}”", "「{L}」",
    "选{L}", "选{L}。", "我选{L}", "我会选{L}。", "我选择{L}。", "选择选项{L}", "应选{L}。", "故选{L}。", "故选：{L}", "本题选{L}", "选{L}吧",
    "我的选择是{L}。", "答案是{L}", "答案：{L}", "答案:{L}。", "答案{L}", "答案为{L}", "答案应为{L}。", "答案应该是{L}。", "答案就是{L}。",
    "正确答案是{L}。", "正确答案：{L}", "正确答案为（{L}）", "正确选项是{L}。", "正确选项：{L}", "正确的是{L}。", "最佳答案是{L}", "最终答案：{L}", "【答案】{L}", "【答案】：{L}",
    "答：{L}", "答：选{L}。", "{L}答案", "{L}选项", "选项{L}", "{L}项", "{L}是正确的。", "{L}正确", "{L}选项正确。", "{L}项符合题意。", "{L}是正确答案。", "{L}才是正确答案。",
    "{L}吧", "应该是{L}吧", "应该是{L}。", "我认为是{L}。", "我认为答案是{L}。", "我觉得应该选{L}。", "我觉得{L}更合适。", "所以{L}", "所以{L}。", "因此选{L}。", "因此，答案是{L}。", "综上所述，答案为{L}。",
    "综上，选{L}。", "总之，应选择{L}。", "由此可见，正确答案是{L}。", "经过分析，答案是{L}。", "可能是{L}。", "大概是{L}吧。", "我倾向于{L}。", "我倾向于选择{L}。", "毫无疑问，选{L}。", "显然是{L}。", "当然是{L}！",
    "这道题选{L}。", "这道题的答案是{L}。", "本题正确答案为{L}。", "根据题意，答案是{L}。", "我的答案是：{L}", "我的回答是{L}。", "判断：{L}", "结论：{L}", "选择：{L}", "我选择：{L}", "回答：{L}", "结果：{L}", "判断结果：{L}",
    "好的，答案是{L}。", "您好！这道题应该选{L}。", "抱歉让您久等，答案是{L}。", "让我想想……应该是{L}。", "嗯，选{L}。", "如果非要选一个，我选{L}。",
    "The answer is {L}.", "Answer: {L}", "answer: {L}", "ANSWER: {L}", "The correct answer is {L}.", "The correct answer is ({L}).", "The correct answer is: **{L}**", "The correct option is {L}.", "Correct answer: {L}", "Final answer: {L}",
    "My answer is {L}.", "My choice is {L}.", "I choose {L}.", "I would choose {L}.", "I'd go with {L}.", "I'll pick option {L}.", "I select {L}", "Option {L}", "option {L}.", "Option {L} is correct.", "{L} is correct.", "{L} is the correct answer.",
    "{L} is right.", "It's {L}.", "It is {L}.", "I think it's {L}.", "I believe the answer is {L}.", "So the answer is {L}.", "Therefore, {L}.", "Thus, the correct answer is {L}.", "So {L}", "Definitely {L}!", "Probably {L}.", "In conclusion, the answer is {L}.", "I lean towards {L}.",
    # letters and markup
    "$\\boxed{{{L}}}$", "\\boxed{{\\text{{{L}}}}}", "答案是$\\boxed{{{L}}}$。", "\\(\\boxed{{{L}}}\\)", "$$\\boxed{{\\mathrm{{{L}}}}}$$", "**答案：{L}**", "**答案**：{L}", "### 答案\n{L}", "## 答案：{L}", "> {L}", "- {L}", "* 答案：{L}",
    "答案：\n{L}", "答案是：\n\n**{L}**", "正确答案是\n{L}", "<answer>{L}</answer>", "<答案>{L}</答案>", '{{"answer": "{L}"}}', '{{"答案": "{L}"}}', '{{"choice":"{L}","reason":"见上"}}', '```json\n{{"answer": "{L}"}}\n```', "answer = {L}", "答案=>{L}", "→ {L}", "✅ {L}", "{L} ✅",
    '{{"reason": "{X}不符合题意", "answer": "{L}"}}', '["{L}"]', "'{L}'", "Ans: {L}", "A: {L}" if False else "Ans. {L}",
    # letters and text
    "{L}. {T}", "{L}、{T}", "{L}：{T}", "({L}) {T}", "（{L}）{T}", "{L}) {T}", "{L} {T}", "{L}（{T}）", "{L}“{T}”", "**{L}. {T}**", "答案是{L}. {T}", "答案：{L}、{T}。", "正确答案是：{L}，{T}。", "选{L}，{T}。", "选{L}：{T}", "我选择{L}（{T}）。", "The answer is {L}. {T}.", "The correct answer is {L}) {T}",
    "故选{L}（{T}）。", "{T}（{L}）", "答案是“{T}”（{L}）。", "应选{L}项“{T}”。",
    # text
    "{T}", "{T}。", "“{T}”", "“{T}”。", "「{T}」", "**{T}**", "答案：{T}", "答案是：{T}。", "答案是“{T}”。", "正确答案是“{T}”。", "正确答案：{T}", "正确答案为{T}。", "选择“{T}”", "选择：{T}", "我选择：{T}", "我选“{T}”。", "我选择{T}。", "选“{T}”这一项。", "我的选择是“{T}”。", "应选“{T}”。",
    "结论：{T}", "判断：{T}", "判断结果：{T}。", "回答：{T}", "答：{T}。", "我的答案是{T}。", "我的回答是：{T}。", "我认为是{T}。", "我认为答案是“{T}”。", "所以答案是“{T}”。", "所以答案是{T}。", "因此，答案为“{T}”。", "综上，答案是{T}。", "应该是{T}吧。", "【答案】{T}", "最终答案：{T}", "正确选项是“{T}”。",
    "The answer is {T}.", "Answer: {T}", 'The answer is "{T}".', "The correct answer is: {T}", "I choose \"{T}\".", "My answer: {T}", '{{"answer": "{T}"}}', "\\boxed{{{T}}}", "<answer>{T}</answer>", "答案\n{T}", "### 结论\n{T}",
    # explanations around it
    "{L}。因为这种做法不符合法律规定。", "{L}，因为其他选项都不符合题意。", "选{L}，因为{X}不符合题意。", "{L}\n\n解析：{X}项说的是另一种情况。", "{L}。理由：根据相关法律规定，该行为应当受到处罚，不能随意为之。", "答案是{L}，理由如下：首先，这种行为损害了他人权益；其次，没有合法依据。",
    "首先分析题目。这种行为涉及多方利益。{X}项不符合题意。因此答案是{L}。", "分析：题目描述了一种情形，需要结合法律判断。\n\n{X}：不符合。\n\n答案：{L}", "The situation is complicated. Option {X} might seem plausible, but the correct answer is {L}.", "Let me think step by step. First, we read the question. {X} is wrong because it does not apply. So the answer is {L}.",
    "{L} because {X} is wrong.", "The answer is {L}, not {X}.", "{LIST}\n\n答案：{L}", "{LIST}\n{L}", "题目给出的选项是：\n{LIST}\n\n我选择{L}。", "**答案：** {L}\n\n**解析：** {X}项错误，不符合题意。", "答案：{L}\n解析：{X}选项不正确，因为它与题意无关。", "我选{L}，不选{X}。", "选择{L}而不是{X}。", "{L}，而不是{X}。",
    "有人可能会选{X}，但正确答案是{L}。", "乍一看是{X}，其实应该选{L}。", "虽然{X}看起来也有道理，但答案是{L}。", "{X}看似合理，但{L}更合适。", "{L}比{X}更合适。", "与{X}相比，{L}更符合题意。", "I'd choose {L} rather than {X}.", "{L} is better than {X}." if False else "I pick {L} over {X}." if False else "I'd say {L}.",
    "不是{X}，而是{L}。", "答案不是{X}，而是{L}。", "The answer is not {X} but {L}.", "It's not {X}; it's {L}.", "{X}错误，{L}正确。", "{X}：错误。{L}：正确。", "{X} (incorrect), {L} (correct)", "{X}错，{L}对。", "{X}不对，{L}对。", "{X}项不符合题意，{L}项符合题意。", "{X} ❌ {L} ✅", "{X} ❌\n{L} ✅",
    "排除{X}，选{L}。", "排除{X}后，剩下{L}。", "{X}是错误的，所以选{L}。", "{X} is wrong, so {L}.", "{X} is incorrect. {L} is correct.", "{L}对，{X}错。", "{L}正确，{X}错误。", "{L}选项正确，{X}选项错误，因为它与题意不符。",
    # corrections
    "不对，应该是{L}", "不对，应该是{L}。", "不，应该选{L}。", "{X}。不对，应该是{L}。", "我选{X}。不，我选{L}。", "答案是{X}。等等，我错了，答案是{L}。", "答案是{X}。更正：答案是{L}。", "{X}……不对，是{L}。", "I choose {X}. Wait, no, it's {L}.", "The answer is {X}. Actually, the answer is {L}.", "一开始我以为是{X}，但最终答案是{L}。",
    "我无法给出确定答案，但倾向于{L}", "很难说，但我选{L}。", "虽然不太确定，但我认为答案是{L}。", "I'm not sure, but I'd go with {L}.", "这个问题比较复杂，不过我会选择{L}。",
)  # fmt: skip
"""A person understands each of these as the choice of one option."""

AMBIGUOUS = (
    "{L}和{X}", "{L}、{X}", "{L}或{X}", "{L}和{X}都成立", "{L}和{X}都对。", "{L}与{X}均违反规定。", "{L}和{X}都有道理", "{L}和{X}两项都有可能", "either {L} or {X}", "Both {L} and {X}.", "Both {L} and {X} are correct.", "It could be {L} or {X}.",
    "可能是{L}，也可能是{X}。", "{L}还是{X}？", "是{L}还是{X}很难说。", "我在{L}和{X}之间犹豫。", "答案是{L}。答案是{X}。", "选{L}。选{X}。", "neither {L} nor {X}", "Neither {L} nor {X} is correct.", "{L}和{X}都不对。", "既不是{L}也不是{X}。", "不是{L}", "不选{L}。", "我不会选{L}", "我不选{L}。",
    "{L}的说法不对", "{L}错误。", "{L}是错误的。", "{L}不正确。", "排除{L}。", "I don't think it's {L}.", "It's not {L}.", "{L} is wrong.", "{L} is incorrect.", "The answer is not {L}.", "I would not choose {L}.", "答案不是{L}。", "不能选{L}。", "如果选{L}，那就错了。", "如果{L}正确，那么{X}错误。",
    "有人选{L}。", "很多人会选{L}。", "Some people say {L}.", "为什么不是{L}？", "是{L}吗？", "Is it {L}?", "是不是{L}？", "不知道是不是{L}。", "不确定是否是{L}。", "我不确定答案是{L}还是{X}。", "I can't decide between {L} and {X}.", "It depends: {L} or {X}.", "{L}（{X}）", "{L}. {XT}", "答案是{L}. {XT}", "{XT}（{L}）",
    "{LIST}", "{L}。不过我也不确定。", "答案是{L}。不对。", "我选{L}。等等，{L}不对。", "The answer is {L}. Wait, no, that's not right.", "选{L}。但{X}也正确。", "{L} {X}", "{L}/{X}", "{L}&{X}", "{L} and {X} are both right", "{L}不一定正确。", "{L}正确吗？", "难道是{L}？", "与其选{L}，不如选{X}。" if False else "不好说，{L}和{X}各有道理。",
    "“{T}”的说法不成立。", "不能说“{T}”。", "是否“{T}”很难说。", "没有“{T}”。", "如果说“{T}”，那是夸大其词。", "我不认为“{T}”。",
)  # fmt: skip
"""None of these settles on the option {L}: it is negated, undecided, several, or another's."""


def render(template: str, options: Mapping[str, str], letter: str, other: str) -> str:
    """A template about an option and another one."""
    shown = "\n".join(f"{name}. {text}" for name, text in options.items())
    return template.format(
        L=letter, T=options[letter].rstrip("。"), X=other, XT=options[other].rstrip("。"), LIST=shown
    )


def other_than(letter: str, options: Mapping[str, str], number: int) -> str:
    """One of the other options."""
    others = [name for name in options if name != letter]
    return others[number % len(others)]


def rendered(options: Mapping[str, str], letter: str, number: int = 0) -> Iterator[tuple[str, str]]:
    """Every understood template with its text."""
    other = other_than(letter, options, number)
    for template in UNDERSTOOD:
        yield template, render(template, options, letter, other)
