import Foundation

/// RFC 3339, which is what `date-time` is in a schema.
enum Dates {
    /// Nil outside the years 0 to 9999, which have four digits.
    static func text(_ date: Date) -> String? {
        guard (-62_167_219_200..<253_402_300_799.999).contains(date.timeIntervalSince1970) else { return nil }
        let milliseconds = Int64((date.timeIntervalSince1970 * 1000).rounded())
        let (day, rest) = (milliseconds.floorDivided(by: 86_400_000), milliseconds.floorRemainder(by: 86_400_000))
        let (year, month, dayOfMonth) = civil(day)
        let (seconds, fraction) = (rest / 1000, rest % 1000)
        func pad(_ value: Int64, _ count: Int = 2) -> String { String(repeating: "0", count: max(0, count - String(value).count)) + String(value) }
        let time = "\(pad(seconds / 3600)):\(pad(seconds / 60 % 60)):\(pad(seconds % 60))" + (fraction == 0 ? "" : ".\(pad(fraction, 3))")
        return "\(pad(year, 4))-\(pad(month))-\(pad(dayOfMonth))T\(time)Z"
    }

    static func date(_ text: String) -> Date? {
        let form = /(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))/
        guard let m = text.wholeMatch(of: form)?.output else { return nil }
        let part = { (s: Substring) in Int64(s) ?? 0 }
        let offset = (part(m.9 ?? "0") * 60 + part(m.10 ?? "0")) * 60 * (m.8 == "-" ? -1 : 1)
        let seconds = days(part(m.1), part(m.2), part(m.3)) * 86_400 + part(m.4) * 3600 + part(m.5) * 60 + part(m.6) - offset
        return Date(timeIntervalSince1970: Double(seconds) + (m.7.flatMap { Double("0\($0)") } ?? 0))
    }

    /// Days since 1970 of a day of the Gregorian calendar (Hinnant's `days_from_civil`).
    private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        let y = month <= 2 ? year - 1 : year
        let era = y.floorDivided(by: 400)
        let yearOfEra = y - era * 400
        let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    private static func civil(_ days: Int64) -> (Int64, Int64, Int64) {
        let z = days + 719_468
        let era = z.floorDivided(by: 146_097)
        let dayOfEra = z - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let m = (5 * dayOfYear + 2) / 153
        let month = m < 10 ? m + 3 : m - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * m + 2) / 5 + 1)
    }
}

extension Int64 {
    fileprivate func floorDivided(by n: Int64) -> Int64 { self >= 0 ? self / n : (self - n + 1) / n }
    fileprivate func floorRemainder(by n: Int64) -> Int64 { self - floorDivided(by: n) * n }
}
