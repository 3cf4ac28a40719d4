"""The words by which answers claim, deny and doubt options, in Chinese and English.

Each class of words has a letter. ``classes`` turns a clause into a string of these letters, over
which ``claims`` states its grammar: nothing is concluded from a word that is not listed here.
"""

from __future__ import annotations

import re

UNKNOWN = "x"
"""The class of all words that are not listed."""

_FILLERS = """
我 我们 我的 本人 个人 个 本 题 本题 该题 此题 这题 这道题 题目的 这 这个 这一 这里 此 那 那么 就 则 也 还 的 了
吧 呢 啊 哦 呀 嘛 哈 应该 应当 应 该 会 要 能 可以 只能 必须 更 更为 更加 最 最为 比较 非常 很 较 较为 选项 项 一项
这一项 这项 该项 一个 唯一 字母 说 上 中 来 看 来说 来看 看来 以上 上述 根据 经过 通过 分析 考虑 思考 可知 可见
可以看出 得知 明显 显然 显而易见 当然 肯定 一定 确实 的确 毫无疑问 无疑 不难看出 不难发现 不难判断 也就是 也就是说
即 得出 作出 做出 给出 请 你好 您好 好 好的 嗯 如下 所选 下 序号 对应 对应的 作为 如果必须选择 如果必须选 如果非要选
如果一定要选 如果非要选择 如果只能选一个 如果必须选一个 如果必须选择一个 如果要选 问题 通常 后 以后 之后 之 本次
the a an i i'd i'll i'm we we'd my me this that option options letter would should will must shall certainly definitely
clearly obviously surely personally just simply most more very here to of question it its there do did does can could
of_course if_i_had_to_choose if_i_had_to_pick if_i_have_to_choose if_i_have_to_pick if_i_must_choose ok okay sure well
then hello one on_balance having among them so_i up correct_letter by
"""
"""Words that change nothing."""

_WORDS = {
    # Being: what follows is the same as what precedes.
    "b": "是 为 乃 系 就是 就为 正是 才是 等于 is are was be being 's",
    "=": ": = -> => → ⇒",
    # What an act amounts to.
    "e": "构成 属于 触犯 涉嫌 犯了 认定为 定为 视为 判定为 判断为 判为 归为 constitutes",
    # An answer.
    "a": """答案 结论 判断 判定 结果 回答 答复 答 解答 判断结果 回复 answer answers choice conclusion verdict result
        response selection solution ans reply decision 正确选项 正确答案 正确的选项 正确的答案 最佳答案 最佳选项 correct_option
        correct_answer right_answer best_answer best_option right_option right_choice best_choice correct_choice""",
    # What an option is about.
    "m": "做法 说法 观点 表述 描述 陈述 情况 内容 statement claim",
    # Choosing.
    "c": """选 选择 选了 选的是 选择的是 选择了 选取 选定 勾选 挑 挑选 倾向 倾向于 偏向 偏向于 更倾向 支持 投 choose chose
        choosing pick picked picking select selected selecting go_for going_for go_with going_with opt_for vote_for
        lean_towards lean_toward lean_to leaning_towards leaning_toward settle_on settling_on""",
    # Concluding.
    "t": """所以 因此 因而 故 故而 由此 由此可见 于是 剩下 只剩 只剩下 剩余 余下 那就 综合 so thus therefore hence leaving
        leaves remaining consequently only_leaves""",
    # Concluding for good.
    "f": """最终 最后 综上 综上所述 总之 总的来说 总而言之 final finally in_conclusion in_summary overall to_sum_up
        ultimately in_the_end""",
    # Believing.
    "v": """认为 觉得 想 相信 感觉 看法 think believe guess reckon say opinion in_my_opinion in_my_view feel""",
    # A mild hedge.
    "h": """可能 大概 也许 或许 估计 多半 大概率 似乎 好像 很可能 probably maybe perhaps likely possibly seems presumably
        might may appears looks_like""",
    # Denying what follows.
    "n": """不 不是 不能 不会 不应 不应该 不该 不可 不可能 不选 不选择 不会选 没 没有 未 并未 并非 并不 并不是 绝非 绝不 非 无
        别 勿 拒绝 排除 排除了 排除掉 除了 除 除去 而不是 而非 而不 而不选 不能说 不认为 不觉得 不存在 比 相比 难以 无法 不如
        否认 反对 质疑 怀疑 谈不上 算不上 称不上 远非 从未 not no never rather_than instead_of rule_out rules_out
        ruling_out ruled_out eliminate eliminated eliminating exclude excluding excluded without neither nor except than
        reject rejecting against doubt deny unlike""",
    # Wrong.
    "w": """错误 错 错的 不正确 不对 不成立 不符合 不符合题意 不合题意 不符 不准确 不恰当 不合适 不妥 有误 站不住脚 不合理
        不可取 不太对 不太合适 wrong incorrect false inaccurate ❌ ✗ ✘ × ✖""",
    # Right.
    "r": """正确 对 对的 没错 成立 符合 符合题意 准确 恰当 合适 最佳 最好 合理 妥当 可取 有道理 correct right best true accurate
        appropriate fits ✅ ✓ ✔ √ ☑""",
    # Undecided.
    "u": """不确定 不太确定 不敢确定 无法确定 难以确定 不能确定 很难说 难说 不好说 说不准 说不好 说不清 无法判断 难以判断 很难判断
        不能判断 不知道 不清楚 无法得出 无法给出 难以得出 见仁见智 视情况而定 取决于 看情况 因人而异 拿不准 犹豫 都有可能 皆有可能
        都可能 均有可能 无法选择 无从判断 不好判断 难以选择 不一定 not_sure unsure uncertain not_certain hard_to_say
        difficult_to_say depends unclear not_decide not_determine not_be_determined not_know undecided ambiguous
        impossible_to_say not_tell hard_to_tell torn""",
    # Asking.
    "q": "是否 是不是 吗 哪 哪个 哪项 哪一项 什么 为什么 何 难道 对不对 whether which what why",
    # Supposing.
    "i": """如果 如果说 若 若是 假如 假设 倘若 要是 除非 即使 即便 哪怕 就算 万一 虽然 尽管 if suppose supposing assuming
        unless although though""",
    # Somebody else's claim, or an earlier one.
    "g": """有人 有些人 有的人 很多人 许多人 一些人 不少人 多数人 大多数人 别人 他人 网友 人们 大家 同学 学生 老师 朋友 一般人 题目
        题干 常见 容易 乍一看 乍看 起初 最初 一开始 初看 本来 原本 原以为 以为 曾经 之前 刚才 刚刚 表面 混淆 干扰 some people
        others many they he she students someone at_first initially originally first_glance previously before""",
    # One more.
    "s": "都 均 皆 全 全部 两者 二者 两个 两项 三者 同时 任一 任何 任意 一起 both all either each any",
    "+": "、 / & + 和 与 及 以及 或 或者 或是 还是 跟 兼 and or and/or as_well_as plus",
    # Giving reasons.
    "p": """因为 由于 是因为 理由 理由是 原因 原因是 鉴于 依据 because since as for given due considering based""",
    # Going back on what was said before.
    "d": """但 但是 不过 然而 而是 而 却 更正 更正为 改为 改选 改成 应改为 修正为 其实 实际上 事实上 but however yet
        actually in_fact instead correction""",
    # Longer words with a part that would be of another class.
    UNKNOWN: """候选 候选人 当选 选举 评选 筛选 选手 选民 选拔 对于 对此 对待 对方 针对 绝对 面对 相对 对象 想象 思想 感想 无论 不论 不仅
        不仅仅 不但 无形 无意 违法 不法 不同 未经 未来 未成年 未成年人 是非 作为一种 为了 成为 行为 为主 为例 可能性 全面 全国 安全 错过
        没收 别名 特别 分别 区别 性别 级别 个别 类别 除外 和平 和谐 共和国 参与 及时 故意 事故 故事 若干 任何人 答应 非法 因果""",
}

_CLASS = {
    word.replace("_", " "): name
    for name, words in {"": _FILLERS, **_WORDS}.items()
    for word in words.split()
}


def _pattern() -> re.Pattern[str]:
    """One listed word, the longest that fits; or an option, a run of Latin letters, or a character."""
    words = sorted(map(re.escape, _CLASS), key=len, reverse=True)
    latin = "|".join(word for word in words if word[0].isascii() and word[0].isalpha())
    other = "|".join(word for word in words if not (word[0].isascii() and word[0].isalpha()))
    return re.compile(rf"(?:{latin})(?![a-z])|{other}|[a-z']+|[^\s\w]|[^a-z\s]", re.DOTALL)


_LEXEME = _pattern()


def classes(clause: str) -> str:
    """The classes of a clause's words; options stay as they are, fillers and marks are left out.

    Args:
        clause: in lower case, its options as the characters of ``marking``.
    """
    found: list[str] = []
    for word in _LEXEME.findall(clause):
        name = _CLASS.get(word)
        if name is None:
            name = word if "\ue000" <= word <= "\ue007" else UNKNOWN if word.isalnum() else ""
        if name and not (name == UNKNOWN and found[-1:] == [UNKNOWN]):
            found.append(name)
    return "".join(found)
