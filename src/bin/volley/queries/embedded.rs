//! The files of `queries/`, in the binary. A test compares the lists with the folders.

macro_rules! embedded {
    ($folder:literal: $($name:literal)*) => {
        &[$(($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/", $folder, "/", $name, ".sql")))),*]
    };
}

/// Name and text, in the order in which they run.
#[rustfmt::skip]
pub const TPC_DS: &[(&str, &str)] = embedded!("tpcds":
    "q01" "q02" "q03" "q04" "q05" "q06" "q07" "q08" "q09" "q10" "q11" "q12"
    "q13" "q14a" "q14b" "q15" "q16" "q17" "q18" "q19" "q20" "q21" "q22" "q23a"
    "q23b" "q24a" "q24b" "q25" "q26" "q27" "q28" "q29" "q30" "q31" "q32" "q33"
    "q34" "q35" "q36" "q37" "q38" "q39a" "q39b" "q40" "q41" "q42" "q43" "q44"
    "q45" "q46" "q47" "q48" "q49" "q50" "q51" "q52" "q53" "q54" "q55" "q56"
    "q57" "q58" "q59" "q60" "q61" "q62" "q63" "q64" "q65" "q66" "q67" "q68"
    "q69" "q70" "q71" "q72" "q73" "q74" "q75" "q76" "q77" "q78" "q79" "q80"
    "q81" "q82" "q83" "q84" "q85" "q86" "q87" "q88" "q89" "q90" "q91" "q92"
    "q93" "q94" "q95" "q96" "q97" "q98" "q99"
);

/// Name and text, in the order in which they run.
#[rustfmt::skip]
pub const TPC_H: &[(&str, &str)] = embedded!("tpch":
    "q01" "q02" "q03" "q04" "q05" "q06" "q07" "q08" "q09" "q10" "q11" "q12"
    "q13" "q14" "q15" "q16" "q17" "q18" "q19" "q20" "q21" "q22"
);
